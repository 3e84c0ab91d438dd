/**
 * CPU time of one signed delivery over kept HTTPS connections on loopback, 64 in flight, compared with a bare loop over the
 * same HTTP client: `node bench/deliveries.ts [deliveries]`. The fastest of ten alternating rounds counts, to exclude other
 * load of the machine. Measured on a busy virtual machine with slow system calls: 56 to 70 µs compared with 45 to 54, ratio 1.2
 * to 1.5; 970 µs if each delivery opens a connection and resumes a TLS session.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Pool } from 'undici'
import { createAddressRefusal, parseNetworks } from '../src/http-client/address.ts'
import { createConnector } from '../src/http-client/connector.ts'
import { createResolver, createSystemLookup } from '../src/http-client/resolver.ts'
import { Sender } from '../src/http-client/sender.ts'
import { newSecret } from '../src/endpoints/endpoint-secrets.ts'
import { deliveryHeaders } from '../src/dispatch/attempt.ts'

const inFlight = 64
const endpoints = 8
const rounds = 10
const deliveriesARound = Number(process.argv[2] ?? 40_000) / rounds
const secret = newSecret('default')
const body = Buffer.from(
  JSON.stringify({ id: 'evt_1', type: 'licence.suspended', data: { object: 'x'.repeat(350) } }),
)
const headers = () =>
  deliveryHeaders({
    signature: 'default',
    secrets: [secret],
    body,
    unixSeconds: Math.floor(Date.now() / 1000),
    eventId: 'evt_1',
    attempt: 1,
    headers: [],
  })

const receiver = fork(new URL('receiver.ts', import.meta.url))
const [{ port, authority }] = (await once(receiver, 'message')) as [{ port: number; authority: string }]
const url = `https://localhost:${port}/hook`

const sender = new Sender({
  connect: createConnector({
    resolve: createResolver(createSystemLookup()),
    refusal: createAddressRefusal(parseNetworks('127.0.0.0/8,::1')),
    extraCa: authority,
  }),
})
const send = async (worker: number) => {
  const { outcome } = await sender.send({
    endpointId: `whe_${worker % endpoints}`,
    url,
    headers: headers(),
    body,
  })
  if (outcome !== 'delivered') throw new Error(outcome)
}

const pool = new Pool(new URL(url).origin, {
  connections: inFlight,
  allowH2: false,
  connect: { ca: authority },
})
const dispatch = () =>
  new Promise<void>((resolve, reject) => {
    const handler = {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData() {},
      onResponseEnd: () => resolve(),
    }
    pool.dispatch(
      { method: 'POST', path: '/hook', headers: headers(), body },
      { ...handler, onResponseError: (_, error) => reject(error) },
    )
  })

async function cpuMicroseconds(count: number, one: (worker: number) => Promise<void>) {
  let left = count
  const before = process.cpuUsage()
  const worker = async (_: unknown, index: number) => {
    while (left-- > 0) await one(index)
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / count
}

await cpuMicroseconds(3000, send)
await cpuMicroseconds(3000, dispatch)
let [cpu, bareCpu] = [Infinity, Infinity]
for (let round = 0; round < rounds; round++) {
  bareCpu = Math.min(bareCpu, await cpuMicroseconds(deliveriesARound, dispatch))
  cpu = Math.min(cpu, await cpuMicroseconds(deliveriesARound, send))
}
console.log({
  sender: cpu.toFixed(1),
  bare: bareCpu.toFixed(1),
  ratio: (cpu / bareCpu).toFixed(2),
  ...sender.stats,
})
await sender.close()
await pool.close()
receiver.disconnect()
