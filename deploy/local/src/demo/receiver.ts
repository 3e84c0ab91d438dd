import { spawn } from 'node:child_process'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { CHECKOUT } from '@licensing/local-servers/services'
import { DemoFailure } from './show.ts'

/** A webhook that the vendor's backend received. */
export interface ReceivedEvent {
  type: string
  sequence: number
  application_id: string
  data: { object: Record<string, unknown> }
  signatureIsRight: boolean
}

export interface DemoReceiver extends AsyncDisposable {
  url: string
  /** Waits for the next event of an application that has one of these types. An event that arrived earlier counts too. */
  next(appId: string, ...types: string[]): Promise<ReceivedEvent>
}

/** The vendor's backend: a server on this machine that verifies every event that `licensing listen` forwards to it. */
export async function startReceiver(gateway: string, apiKey: string): Promise<DemoReceiver> {
  const events: ReceivedEvent[] = []
  const waiting = new Set<() => void>()
  const forwarding: { secret?: string } = {}
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const header = String(request.headers['webhook-signature'])
      const event = JSON.parse(body.toString()) as Omit<ReceivedEvent, 'signatureIsRight'>
      events.push({ ...event, signatureIsRight: isRight(header, body, forwarding.secret ?? '') })
      response.writeHead(204).end()
      for (const look of waiting) look()
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`
  const listen = spawn(
    process.execPath,
    [join(CHECKOUT, 'cli/src/main.ts'), 'listen', '--forward-to', url, '--json'],
    {
      env: { PATH: process.env['PATH'] ?? '', LICENSING_URL: gateway, LICENSING_API_KEY: apiKey },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const ended = once(listen, 'exit')
  const stop = async () => {
    listen.kill('SIGTERM')
    await ended
    server.closeAllConnections()
    await once(server.close(), 'close')
  }
  for await (const line of createInterface(listen.stdout)) {
    Object.assign(forwarding, JSON.parse(line))
    break
  }
  listen.stdout.resume()
  if (forwarding.secret === undefined) {
    await stop()
    throw new DemoFailure('licensing listen ended; its output is above')
  }
  return {
    url,
    next: (appId, ...types) =>
      new Promise<ReceivedEvent>((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no ${types.join(' or ')} arrived in 20 s`)), 20_000)
        const look = () => {
          const at = events.findIndex(({ type, application_id: of }) => of === appId && types.includes(type))
          if (at < 0) return
          clearTimeout(timer)
          waiting.delete(look)
          resolve(events.splice(at, 1)[0]!)
        }
        waiting.add(look)
        look()
      }),
    [Symbol.asyncDispose]: stop,
  }
}

/** The check that every receiver must make: HMAC over `<t>.<raw body>`, compared in constant time, and `t` within 300 s. */
function isRight(header: string, body: Buffer, secret: string): boolean {
  const [, time, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header) ?? []
  if (time === undefined || signature === undefined) return false
  if (Math.abs(Date.now() / 1000 - Number(time)) > 300) return false
  const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest()
  return timingSafeEqual(expected, Buffer.from(signature, 'hex'))
}
