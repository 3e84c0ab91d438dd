import { makeCertificate } from '@licensing/local-servers/certificates'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'

/** Runs as a process of its own, so that the sender's CPU time is the sender's alone. */
const { authority, certificate, key } = await makeCertificate(['localhost'])
const server = createServer({ cert: certificate, key, keepAliveTimeout: 60_000 }, (request, response) => {
  request.resume().once('end', () => response.end('ok'))
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.({ port: (server.address() as AddressInfo).port, authority })
process.once('disconnect', () => process.exit())
