import { makeCertificate } from '@licensing/local-servers/certificates'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'

/** A separate process, so that the sender's CPU time does not include the receiver's. */
const { authority, certificate, key } = await makeCertificate(['localhost'])
const server = createServer({ cert: certificate, key, keepAliveTimeout: 60_000 }, (request, response) => {
  request.resume().once('end', () => response.end('ok'))
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.({ port: (server.address() as AddressInfo).port, authority })
process.once('disconnect', () => process.exit())
