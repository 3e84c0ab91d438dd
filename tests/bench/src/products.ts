import { connect, type Sql } from '@licensing/database/connect'
import type { Stack } from '@licensing/test-support/stack-shape'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { load } from './load.ts'
import { cpuSeconds } from './notifier/cpu-time.ts'
import { beside, median, type Figure, type Section } from './report.ts'
import { givenPopulation, licenceId } from './scale/population.ts'
import { startSetting, watchMemory } from './setting.ts'
import { givenInstallations } from './vendor.ts'

/** The cost of calls of installed products, for a vendor with 1,000,000 licences. */
export async function products(): Promise<Section> {
  await using setting = await startSetting()
  const { stack } = setting
  using memory = watchMemory(stack)
  const sql = connect(stack.databaseUrls.licensing, { name: 'bench', max: 4, statementTimeoutMs: 600_000 })
  const { count, emptyPlan } = await givenPopulation(stack, sql, scaled(1_000_000, 2_000))
  const calls = await callHomes(stack, sql, emptyPlan)
  const revoked = await revocations(stack, sql)
  await sql.end()
  return {
    title: `Installed products of a vendor with ${count.toLocaleString('en')} licences`,
    figures: [...calls, ...revoked, ...memory.figures()],
    notes: [],
  }
}

/** Call-homes, and how many are written in one transaction. */
async function callHomes(stack: Stack, sql: Sql, planId: string): Promise<Figure[]> {
  const installations = await givenInstallations(stack, planId, scaled(2_000, 20))
  const since = new Date()
  const next = (n: number) => {
    const { id, token, body } = installations[n % installations.length]!
    return {
      method: 'POST' as const,
      path: `/v1/activations/${id}/call-home`,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ host: body.host, product_version: body.product_version }),
    }
  }
  const { perSecond, wrong } = await load(stack.gatewayUrl, 204, next, { seconds: scaledSeconds(12) })
  if (wrong > 0) throw new Error(`${wrong} call-homes were not answered with 204`)
  // Rows of one transaction have the same `xmin`.
  const [row] = await sql<{ calls: number; writes: number }[]>`
    select count(*)::int as calls, count(distinct xmin::text)::int as writes from call_homes
    where seen_at >= ${since}`
  return [
    { name: 'call-homes', value: perSecond, unit: '/s' },
    { name: 'call-homes gathered', value: row!.calls / row!.writes, unit: 'calls/write' },
  ]
}

const builds = 5

/** A revocation list of 100,000 entries: its size, the time to build it, and the cost of polling it. */
async function revocations(stack: Stack, sql: Sql): Promise<Figure[]> {
  const size = scaled(100_000, 100)
  // Licences with numbers that end in 5 are on the plan of most licences.
  const ids = Array.from({ length: size }, (_, at) => licenceId(at * 10 + 5))
  await sql`update licences set status = 'revoked' where id = any(${ids}::text[]) and status <> 'revoked'`
  const path = `/v1/apps/${stack.appId}/revocations`
  const whole = async () => {
    const startedMs = performance.now()
    const response = await fetch(`${stack.gatewayUrl}${path}`)
    const bytes = (await response.arrayBuffer()).byteLength
    return { bytes, ms: performance.now() - startedMs, etag: response.headers.get('etag')! }
  }
  const builtMs: number[] = []
  const keptMs: number[] = []
  let latest = await whole()
  for (let build = 0; build < builds; build += 1) {
    // Another revocation makes the service rebuild the list; the second request gets it without a rebuild.
    await sql`update licences set status = 'revoked' where id = ${licenceId((size + build) * 10 + 1)}`
    latest = await whole()
    builtMs.push(latest.ms)
    keptMs.push((await whole()).ms)
  }
  const [row] = await sql<{ entries: number }[]>`
    select count(*)::int as entries from revocations where application_id = ${stack.appId}`

  const services = [...stack.processes.gateway, ...stack.processes.licensing].map(({ pid }) => pid)
  const used = async () => (await Promise.all(services.map(cpuSeconds))).reduce((sum, each) => sum + each, 0)
  const seconds = scaledSeconds(4)
  const unchanged = (options: { seconds: number }) =>
    load(
      stack.gatewayUrl,
      304,
      () => ({ method: 'GET', path, headers: { 'if-none-match': latest.etag } }),
      options,
    )
  await unchanged({ seconds: 1 })
  const before = await used()
  const polls = await unchanged({ seconds })
  const microseconds = ((await used()) - before) * 1e6
  if (polls.wrong > 0) throw new Error(`${polls.wrong} polls were not answered with 304`)
  const kept: Figure = { name: 'list, asked for again', value: median(keptMs), unit: 'ms' }
  return [
    {
      name: `list of ${row!.entries.toLocaleString('en')}: size`,
      value: latest.bytes / 2 ** 20,
      unit: 'MiB',
    },
    kept,
    beside('list, built and sent', median(builtMs), 'ms', kept),
    { name: 'unchanged polls (304)', value: polls.perSecond, unit: '/s' },
    {
      name: 'unchanged poll: CPU of gateway and licensing',
      value: microseconds / (polls.perSecond * seconds),
      unit: 'µs',
    },
    { name: 'unchanged polls p99', value: polls.p99Ms, unit: 'ms' },
  ]
}
