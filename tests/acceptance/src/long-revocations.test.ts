import { connect } from '@licensing/database/connect'
import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect as connectTo } from 'node:net'
import { expect, test } from 'vitest'
import { expectStatus, givenStack, givenVendor } from './vendor.ts'

// The limits on Kubernetes: deploy/kubernetes/base/{gateway,licensing}/deployment.yaml.
const memoryLimitMiB = { gateway: 384, licensing: 512 }

const stack = await givenStack({ environment: { TRUST_PROXY: '1', PRODUCT_RATE_PER_MINUTE: '100000' } })

/** Creates applications with revocation lists of these sizes. */
async function givenLists(sizes: number[]): Promise<string[]> {
  const sql = connect(stack.databaseUrls.licensing, { name: 'test', max: 2, statementTimeoutMs: 300_000 })
  const paths: string[] = []
  for (const size of sizes) {
    const { app, appId } = await givenVendor(stack)
    await sql`
      insert into revocations (application_id, version, licence_id)
      select ${appId}, n, 'lic_' || lpad(n::text, 26, '0') from generate_series(1, ${size}::int) as n`
    paths.push(`${app}/revocations`)
  }
  await sql.end()
  return paths
}

async function peakMiB(service: 'gateway' | 'licensing'): Promise<number> {
  const [process] = stack.processes[service]
  const status = await readFile(`/proc/${process!.pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)![1]) / 1024
}

interface Outcome {
  status: number
  bytes: number
  retryAfter: string | null
}

async function poll(path: string, caller: string): Promise<Outcome> {
  const response = await fetch(`${stack.gatewayUrl}${path}`, { headers: { 'x-forwarded-for': caller } })
  let bytes = 0
  for await (const chunk of response.body!) bytes += (chunk as Uint8Array).length
  return { status: response.status, bytes, retryAfter: response.headers.get('retry-after') }
}

/** Requests a list, and repeats the request after `Retry-After`, as the SDK does. */
async function pollUntilAnswered(path: string, caller: string): Promise<Outcome> {
  return eventually(
    async () => {
      const outcome = await poll(path, caller)
      if (outcome.status !== 200) expect(outcome).toMatchObject({ status: 503, retryAfter: '1' })
      expect(outcome.status).toBe(200)
      return outcome
    },
    { timeoutMs: 240_000, intervalMs: 1_000 },
  )
}

/** Requests a list and stops reading when the answer begins. */
async function givenSilentCaller(path: string, caller: string) {
  const { hostname, port } = new URL(stack.gatewayUrl)
  const socket = connectTo(Number(port), hostname)
  await once(socket, 'connect')
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${caller}\r\n\r\n`)
  await once(socket, 'readable')
  return { [Symbol.dispose]: () => void socket.destroy() }
}

test(`many clients poll long lists of five applications within the memory of gateway and licensing (${drawing})`, async () => {
  const sizes = [1_000_000, 160_000, 160_000, 160_000, 160_000]
  const paths = await givenLists(sizes)
  using silent = new DisposableStack()
  for (let caller = 0; caller < 8; caller += 1) {
    silent.use(await givenSilentCaller(paths[0]!, `10.1.0.${caller}`))
  }
  for (const round of drawn([0, 1, 2], 1)) {
    const polls = paths.flatMap((path, at) =>
      drawn([undefined, 1, 20_000 * (round + 1), 90_000 + round, sizes[at]! - 1], 2).map(
        async (since, caller) => {
          const from = since === undefined ? path : `${path}?since=${since}`
          const { bytes } = await pollUntilAnswered(from, `10.0.${at}.${caller}`)
          // An entry takes 33 bytes, and 44 more in the signed part.
          expect(bytes).toBeGreaterThan(77 * (sizes[at]! - (since ?? 0)))
        },
      ),
    )
    await Promise.all(polls)
    expectStatus(await stack.api.get('/v1/apps'), 200)
  }
  const peaks = { gateway: await peakMiB('gateway'), licensing: await peakMiB('licensing') }
  expect(peaks.gateway).toBeLessThan(memoryLimitMiB.gateway)
  expect(peaks.licensing).toBeLessThan(memoryLimitMiB.licensing)
}, 600_000)

test('a caller gets few long lists at a time, further calls get 503, and short lists are not affected', async () => {
  const [path] = await givenLists([200_000])
  const own = '10.3.0.1'
  using silent = new DisposableStack()
  for (let at = 0; at < 4; at += 1) silent.use(await givenSilentCaller(path!, own))
  await eventually(async () => expect(await poll(path!, own)).toMatchObject({ status: 503 }))
  expect(await poll(`${path}?since=199990`, own)).toMatchObject({ status: 200 })
  expect(await poll(path!, '10.3.0.2')).toMatchObject({ status: 200 })
}, 120_000)
