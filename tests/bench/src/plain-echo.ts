// A gateway and one gRPC hop without any of our features, to measure their cost: `plain-echo.ts service`, and
// `plain-echo.ts gateway PORT` in front of it. The answers have the fields and sizes of the gateway's answers.
import { Client, credentials, Server, ServerCredentials } from '@grpc/grpc-js'
import type { sendUnaryData, ServerUnaryCall } from '@grpc/grpc-js'
import fastify from 'fastify'
import type { AddressInfo } from 'node:net'

type Json = Record<string, unknown>

const time = '2026-11-18T12:26:40.000Z'
const licence = {
  id: 'lic_01k9zj3v8qe5ktw2m4x6r7n8ab',
  key: 'AAAAA-BBBBB-CCCCC-DDDDD-EEEEE',
  status: 'active',
  plan_id: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab',
  application_id: 'app_01k9zj3v8qe5ktw2m4x6r7n8ab',
  external_ref: 'customer-1',
  created_at: time,
  updated_at: time,
}
const entitlements = [0, 1, 2, 3].map((at) => ({ key: `feature_${at}`, kind: 'feature', value: 'true' }))
const answers: Record<string, Json> = {
  issue: licence,
  detail: { ...licence, entitlements, activations: [], call_home: [] },
  refresh: {
    activation_id: 'act_01k9zj3v8qe5ktw2m4x6r7n8ab',
    licence_id: licence.id,
    token: 'e'.repeat(700),
    expires_at: time,
    refresh_after: time,
    check_interval_seconds: 900,
  },
}
const toBytes = (message: Json) => Buffer.from(JSON.stringify(message))
const fromBytes = (bytes: Buffer) => JSON.parse(bytes.toString()) as Json

async function startService(): Promise<number> {
  const server = new Server()
  const method = { path: '/plain.Echo/Call', requestStream: false, responseStream: false } as const
  const bytes = { requestSerialize: toBytes, requestDeserialize: fromBytes }
  server.addService(
    { call: { ...method, ...bytes, responseSerialize: toBytes, responseDeserialize: fromBytes } },
    {
      call: ({ request }: ServerUnaryCall<Json, Json>, callback: sendUnaryData<Json>) =>
        callback(null, answers[request['name'] as string]),
    },
  )
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    )
  })
}

async function startGateway(servicePort: string): Promise<number> {
  const client = new Client(`127.0.0.1:${servicePort}`, credentials.createInsecure())
  const call = (request: Json) =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest('/plain.Echo/Call', toBytes, fromBytes, request, (error, answer) =>
        error ? reject(error) : resolve(answer),
      )
    })
  const app = fastify()
  app.post('/v1/apps/:app_id/licences', async ({ body }, reply) => {
    reply.code(201)
    return call({ name: 'issue', body })
  })
  app.get('/v1/licences/:licence_id', async ({ params }) => call({ name: 'detail', params }))
  app.post('/v1/activations/:activation_id/refresh', async ({ body }) => call({ name: 'refresh', body }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as AddressInfo).port
}

const [role, servicePort = ''] = process.argv.slice(2)
process.stdin.on('end', () => process.exit(0)).resume()
process.stdout.write(`${role === 'service' ? await startService() : await startGateway(servicePort)}\n`)
