import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** The work that a client has sent to PostgreSQL so far. */
export interface PostgresWork {
  statements: number
  /** Statements that are sent together, without waiting for an answer in between, count as one round trip. */
  roundTrips: number
}

interface CountingPostgres extends AsyncDisposable {
  /** The server's URL, through this proxy. */
  readonly url: string
  /** The work of all connections with this `application_name`. */
  workOf(name: string): PostgresWork
}

// Answers are delayed by this time. Statements that arrive meanwhile were sent without waiting for an answer.
const answerDelayMs = 3

/**
 * Starts a proxy in front of PostgreSQL that counts what its clients send.
 *
 * @param serverUrl URL of its superuser, without TLS
 */
export async function startCountingPostgres(serverUrl: string): Promise<CountingPostgres> {
  const target = new URL(serverUrl)
  const open = new Set<Socket>()
  const work = new Map<string, PostgresWork>()
  const workOf = (name: string) => {
    const known = work.get(name) ?? { statements: 0, roundTrips: 0 }
    work.set(name, known)
    return known
  }
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const socket of [client, upstream]) {
      open.add(socket)
      socket.setNoDelay()
      socket.on('error', () => socket.destroy()).on('close', () => open.delete(socket))
    }
    const messages = new MessageReader()
    let own: PostgresWork | undefined
    let isWaiting = false
    client.on('data', (bytes: Buffer) => {
      for (const { type, body } of messages.read(bytes)) {
        if (type === 'startup') own = workOf(/application_name\0([^\0]*)\0/.exec(body.toString())?.[1] ?? '')
        else if (own && (type === 'E' || type === 'Q')) own.statements += 1
      }
      isWaiting = true
      upstream.write(bytes)
    })
    upstream.on('data', (bytes: Buffer) => {
      setTimeout(() => {
        if (isWaiting && own) own.roundTrips += 1
        isWaiting = false
        client.write(bytes)
      }, answerDelayMs)
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(target)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    workOf: (name) => ({ ...workOf(name) }),
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close')
      server.close()
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}

/** https://www.postgresql.org/docs/current/protocol-overview.html: all messages but the first begin with their type. */
class MessageReader {
  #rest: Buffer = Buffer.alloc(0)
  #hasStarted = false

  read(bytes: Buffer): { type: string; body: Buffer }[] {
    this.#rest = Buffer.concat([this.#rest, bytes])
    const messages: { type: string; body: Buffer }[] = []
    for (;;) {
      const head = this.#hasStarted ? 1 : 0
      if (this.#rest.length < head + 4) return messages
      const end = head + this.#rest.readUInt32BE(head)
      if (this.#rest.length < end) return messages
      const type = this.#hasStarted ? this.#rest.toString('latin1', 0, 1) : 'startup'
      messages.push({ type, body: this.#rest.subarray(head + 4, end) })
      this.#rest = this.#rest.subarray(end)
      this.#hasStarted = true
    }
  }
}
