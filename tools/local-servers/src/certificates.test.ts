import { get, createServer } from 'node:https'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from './certificates.ts'

test('only a client that trusts the authority accepts a server with its certificate', async () => {
  const { authority, certificate, key } = await makeCertificate(['localhost', '127.0.0.1'])
  const server = createServer({ cert: certificate, key }, (_request, response) => response.end('hello'))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  for (const host of ['localhost', '127.0.0.1']) {
    const options = { host, port, family: 4, agent: false }
    const [response] = await once(get({ ...options, ca: authority }), 'response')
    expect(response).toMatchObject({ statusCode: 200 })
    response.destroy()
    const [refusal] = await once(get(options), 'error').catch((error: unknown) => [error])
    expect(refusal).toMatchObject({ code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' })
  }
})

test('the authorities of two certificates can be trusted together', async () => {
  const pairs = await Promise.all([makeCertificate(['localhost']), makeCertificate(['localhost'])])
  const ca = pairs.map(({ authority }) => authority)
  for (const { certificate, key } of pairs) {
    const server = createServer({ cert: certificate, key }, (_request, response) => response.end('hello'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const [response] = await once(get({ host: 'localhost', port, family: 4, agent: false, ca }), 'response')
    expect(response).toMatchObject({ statusCode: 200 })
    response.destroy()
  }
})
