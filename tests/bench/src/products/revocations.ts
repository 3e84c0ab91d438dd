import type { Sql } from '@licensing/database/connect'
import type { Stack } from '@licensing/test-support/stack-shape'
import { scaled, scaledSeconds } from '../bench-scale.ts'
import { load } from '../load.ts'
import { beside, median } from '../report.ts'
import type { Figure } from '../report.ts'
import { cpuSeconds } from '../notifier/cpu-time.ts'
import { licenceId } from '../scale/population.ts'

const builds = 5

/** A revocation list of 100,000 entries: what it weighs, what building it takes, and what it costs that it is polled. */
export async function revocations(stack: Stack, sql: Sql): Promise<Figure[]> {
  const size = scaled(100_000, 100)
  // Those of the numbers that end in 5: of the plan that most licences are on.
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
    // One more revocation has the list rebuilt; the second look finds it built.
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
  if (polls.wrong > 0) throw new Error(`${polls.wrong} polls were not answered 304`)
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
