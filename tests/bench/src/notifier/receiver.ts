import { makeCertificate } from '@licensing/local-servers/certificates'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { machineMs } from './machine-clock.ts'

// A receiver in a separate process, so that its CPU time is not counted as the sender's. It never answers paths under
// /dead, and those under /slow after 50 ms. On request it returns when the first delivery of each event to other paths arrived.
const { authority, certificate, key } = await makeCertificate(['localhost'])
const slowMs = 50
const seen = new Map<string, number>()
const server = createServer({ cert: certificate, key, keepAliveTimeout: 60_000 }, (request, response) => {
  if (request.url?.startsWith('/dead')) return
  const id = String(request.headers['webhook-id'])
  if (!seen.has(id)) seen.set(id, machineMs())
  const answer = () => response.end('ok')
  request
    .resume()
    .once('end', () => (request.url?.startsWith('/slow') ? setTimeout(answer, slowMs) : answer()))
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
process.on('message', () => process.send?.({ seen: [...seen] }))
process.send?.({ port: (server.address() as AddressInfo).port, authority })
process.once('disconnect', () => process.exit())
