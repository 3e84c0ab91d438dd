import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { makeCertificate } from '@licensing/local-servers/certificates'

/** A webhook as the vendor's backend received it. */
export interface ReceivedEvent {
  type: string
  sequence: number
  data: { object: Record<string, unknown> }
  signatureIsRight: boolean
}

export interface DemoReceiver extends AsyncDisposable {
  url: string
  /** The endpoint's secret, once it is registered. */
  secret: string
  /** The next event of one of these types; those that came before are given at once. */
  next(...types: string[]): Promise<ReceivedEvent>
}

/** PEM file of the authority that the demo's receiver is vouched for by: WEBHOOK_CA_FILE of the stack. */
export const authorityFile = (folder: string) => join(folder, 'demo-authority.pem')

/** Makes the receiver's certificate in a folder, once. */
export async function ensureCertificate(folder: string): Promise<{ certificate: string; key: string }> {
  const file = join(folder, 'demo-certificate.json')
  const kept = await readFile(file, 'utf8').catch(() => undefined)
  if (kept !== undefined) return JSON.parse(kept) as { certificate: string; key: string }
  const { authority, certificate, key } = await makeCertificate(['localhost', '127.0.0.1'])
  await writeFile(authorityFile(folder), authority)
  await writeFile(file, JSON.stringify({ certificate, key }), { mode: 0o600 })
  return { certificate, key }
}

/** The vendor's backend: an HTTPS server on this machine that verifies every event. */
export async function startReceiver(folder: string): Promise<DemoReceiver> {
  const { certificate, key } = await ensureCertificate(folder)
  const events: ReceivedEvent[] = []
  const waiting = new Set<() => void>()
  const receiver = { secret: '' }
  const server = createServer({ cert: certificate, key }, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const header = String(request.headers['webhook-signature'])
      const event = JSON.parse(body.toString()) as Omit<ReceivedEvent, 'signatureIsRight'>
      events.push({ ...event, signatureIsRight: isRight(header, body, receiver.secret) })
      response.writeHead(204).end()
      for (const look of waiting) look()
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return Object.assign(receiver, {
    url: `https://localhost:${port}/webhooks`,
    next: (...types: string[]) =>
      new Promise<ReceivedEvent>((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no ${types.join(' or ')} arrived in 20 s`)), 20_000)
        const look = () => {
          const at = events.findIndex(({ type }) => types.includes(type))
          if (at < 0) return
          clearTimeout(timer)
          waiting.delete(look)
          resolve(events.splice(at, 1)[0]!)
        }
        waiting.add(look)
        look()
      }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  })
}

/** What any receiver has to do: HMAC over `<t>.<raw body>`, compared in constant time, `t` within 300 s. */
function isRight(header: string, body: Buffer, secret: string): boolean {
  const [, time, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header) ?? []
  if (time === undefined || signature === undefined) return false
  if (Math.abs(Date.now() / 1000 - Number(time)) > 300) return false
  const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest()
  return timingSafeEqual(expected, Buffer.from(signature, 'hex'))
}
