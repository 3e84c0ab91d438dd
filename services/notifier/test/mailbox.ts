import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { SMTPServer } from 'smtp-server'

export interface Mail {
  to: string[]
  subject: string
  /** The mail with its header. */
  text: string
}

/** A mail server that stores the mails that it receives. */
export interface Mailbox extends AsyncDisposable {
  url: string
  mails: Mail[]
  /** Refuses the next `count` mails. */
  refuse(count: number): void
  /** Accepts the next `count` mails, but breaks the connection instead of answering. */
  breakOff(count: number): void
}

export async function startMailbox(): Promise<Mailbox> {
  const mails: Mail[] = []
  let refusals = 0
  let breaks = 0
  const sockets = new Set<Socket>()
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        refusals -= 1
        if (refusals >= 0) return done(new Error('mailbox is busy'))
        const text = Buffer.concat(chunks).toString().replaceAll('=\r\n', '').replaceAll('=3D', '=')
        const subject = /^Subject: ([^]*?)\r\n(?! )/m.exec(text)?.[1]?.replaceAll(/\r\n */g, ' ') ?? ''
        mails.push({ to: session.envelope.rcptTo.map(({ address }) => address), subject, text })
        breaks -= 1
        if (breaks < 0) return done()
        for (const socket of sockets) socket.destroy()
        return undefined
      })
    },
  })
  // Ignores errors of broken connections.
  server.on('error', () => undefined)
  const listening = server.listen(0, '127.0.0.1')
  listening.on('connection', (socket: Socket) => sockets.add(socket))
  await once(listening, 'listening')
  const { port } = listening.address() as AddressInfo
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails,
    refuse: (count) => (refusals = count),
    breakOff: (count) => (breaks = count),
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  }
}
