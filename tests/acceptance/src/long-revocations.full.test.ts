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

/** Requests a list and stops reading when the answer begins. */
async function givenSilentCaller(path: string, caller: string) {
  const { hostname, port } = new URL(stack.gatewayUrl)
  const socket = connectTo(Number(port), hostname)
  await once(socket, 'connect')
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${caller}\r\n\r\n`)
  await once(socket, 'readable')
  return { [Symbol.dispose]: () => void socket.destroy() }
}

interface Part {
  version: number
  revoked: string[]
  more: boolean
}

/** Reads a list to its end. */
async function readAll(path: string, caller: string): Promise<number> {
  let count = 0
  for (let query = ''; ;) {
    const response = await eventually(
      async () => {
        const answer = await fetch(`${stack.gatewayUrl}${path}${query}`, {
          headers: { 'x-forwarded-for': caller },
        })
        if (answer.status !== 200) await answer.text()
        expect(answer.status).toBe(200)
        return answer
      },
      { timeoutMs: 120_000, intervalMs: 1_000 },
    )
    const { version, revoked, more } = (await response.json()) as Part
    expect(revoked.length).toBeLessThanOrEqual(16_384)
    count += revoked.length
    if (!more) return count
    query = `?since=${version}`
  }
}

test(`many clients read long lists of five applications to their ends within the memory of gateway and licensing (${drawing})`, async () => {
  const sizes = [200_000, 50_000, 50_000, 50_000, 50_000]
  const paths = await givenLists(sizes)
  using silent = new DisposableStack()
  for (let caller = 0; caller < 60; caller += 1) {
    const since = caller * 100
    silent.use(await givenSilentCaller(`${paths[0]!}?since=${since}`, `10.1.0.${caller}`))
  }
  for (const round of drawn([0, 1, 2], 1)) {
    const reads = paths.flatMap((path, at) =>
      [0, 1, 2].map(async (caller) => {
        expect(await readAll(path, `10.0.${at}.${round}${caller}`)).toBe(sizes[at])
      }),
    )
    await Promise.all(reads)
    expectStatus(await stack.api.get('/v1/apps'), 200)
  }
  const peaks = { gateway: await peakMiB('gateway'), licensing: await peakMiB('licensing') }
  expect(peaks.gateway).toBeLessThan(memoryLimitMiB.gateway)
  expect(peaks.licensing).toBeLessThan(memoryLimitMiB.licensing)
}, 600_000)
