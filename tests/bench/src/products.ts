import { randomUUID } from 'node:crypto'
import { connect, type Sql } from '@licensing/database/connect'
import type { Stack } from '@licensing/test-support/stack-shape'
import { decodeJwt, generateKeyPair, SignJWT } from 'jose'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { load, loop, type LoadRequest, type LoadResult } from './load.ts'
import { watchMemory } from './memory.ts'
import { cpuSeconds } from './notifier/cpu-time.ts'
import { beside, median, type Figure, type Section } from './report.ts'
import { givenPopulation, licenceId, licenceKey } from './scale/population.ts'
import { startSetting } from './setting.ts'

/** The cost of calls of installed products, for a vendor with 1,000,000 licences. */
export async function products(): Promise<Section> {
  await using setting = await startSetting()
  const { stack } = setting
  using memory = watchMemory(stack)
  const sql = connect(stack.databaseUrls.licensing, { name: 'bench', max: 4, statementTimeoutMs: 600_000 })
  const { count } = await givenPopulation(stack, sql, scaled(1_000_000, 2_000))
  const refreshed = await refreshes(stack, await setting.echoGateway(), sql)
  const revoked = await revocations(stack, sql)
  await sql.end()
  return {
    title: `Installed products of a vendor with ${count.toLocaleString('en')} licences`,
    figures: [...refreshed.figures, ...revoked, ...memory.figures()],
    notes: refreshed.notes,
  }
}

const rounds = 3

/** Refreshes through the gateway, compared with the same route to an echo and with a loop that only signs; and call-homes. */
export async function refreshes(
  stack: Stack,
  echo: string,
  sql: Sql,
): Promise<{ figures: Figure[]; notes: string[] }> {
  const installations = await givenInstallations(stack, scaled(2_000, 20))
  const of = (n: number) => installations[n % installations.length]!
  const seconds = scaledSeconds(4)
  const refresh = (gateway: string) => load(gateway, 200, (n) => productCall(of(n), 'refresh'), { seconds })
  const callHome = () => load(stack.gatewayUrl, 204, (n) => productCall(of(n), 'call-home'), { seconds })
  const sign = await bareSigner(of(0).token)

  const results = { refresh: [] as LoadResult[], echo: [] as LoadResult[], callHome: [] as LoadResult[] }
  const bareRates: number[] = []
  const callsPerWrite: number[] = []
  await refresh(stack.gatewayUrl)
  for (let round = 0; round < rounds; round += 1) {
    bareRates.push(await loop(sign, 64, seconds))
    results.echo.push(await refresh(echo))
    results.refresh.push(await refresh(stack.gatewayUrl))
    const before = new Date()
    results.callHome.push(await callHome())
    callsPerWrite.push(await gathered(sql, before))
  }
  const wrong = Object.values(results)
    .flat()
    .reduce((sum, each) => sum + each.wrong, 0)
  const rate = (of: LoadResult[]) => median(of.map((each) => each.perSecond))
  const p99 = (of: LoadResult[]) => median(of.map((each) => each.p99Ms))
  const bare: Figure = { name: 'bare loop signing the same token', value: median(bareRates), unit: '/s' }
  const echoed: Figure = { name: 'refresh, echo RPC', value: rate(results.echo), unit: '/s' }
  return {
    figures: [
      bare,
      echoed,
      beside('refresh', rate(results.refresh), '/s', bare),
      beside('refresh', rate(results.refresh), '/s', echoed),
      { name: 'refresh p99', value: p99(results.refresh), unit: 'ms' },
      { name: 'call-homes', value: rate(results.callHome), unit: '/s' },
      { name: 'call-homes gathered', value: median(callsPerWrite), unit: 'calls/write' },
    ],
    notes: [`answers without the expected status: ${wrong}`],
  }
}

/** The average number of calls per transaction since then, by the `xmin` of their rows. No licence calls more than 50 times. */
async function gathered(sql: Sql, since: Date): Promise<number> {
  const [row] = await sql<{ calls: number; writes: number }[]>`
    select count(*)::int as calls, count(distinct xmin::text)::int as writes from call_homes
    where seen_at >= ${since}`
  return row!.calls / row!.writes
}

const builds = 5

/** A revocation list of 100,000 entries: its size, the time to build it, and the cost of polling it. */
export async function revocations(stack: Stack, sql: Sql): Promise<Figure[]> {
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

/** An installed product with its token. */
export interface Installation {
  activationId: string
  token: string
  host: string
}

/** Activates a product on each of `count` active licences. */
async function givenInstallations({ api }: Stack, count: number): Promise<Installation[]> {
  const installations: Installation[] = []
  const activate = async (n: number) => {
    const host = `machine-${n}.example.com`
    const body = { licence_key: licenceKey(n), fingerprint: `machine-${n}`, host, product_version: '1.0' }
    const answer = await api.post<{ activation_id: string; token: string }>('/v1/activations', {
      body,
      key: null,
    })
    if (answer.status !== 201) throw new Error(`not activated: ${JSON.stringify(answer.body)}`)
    installations.push({ activationId: answer.body.activation_id, token: answer.body.token, host })
  }
  // All licences with numbers that end in 1 and 2 are active. Consecutive ones are far apart in the table.
  let at = 0
  const worker = async () => {
    while (at < count) {
      const n = at++
      await activate(10 + 10 * Math.floor(n / 2) + (n % 2) + 1)
    }
  }
  await Promise.all(Array.from({ length: 16 }, worker))
  return installations
}

/** A request of an installed product about itself: `refresh` or `call-home`. */
function productCall(
  { activationId, token, host }: Installation,
  verb: 'refresh' | 'call-home',
): LoadRequest {
  return {
    method: 'POST',
    path: `/v1/activations/${activationId}/${verb}`,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ product_version: '1.0', host }),
  }
}

/** A function that only signs the claims of a service's token, with another key. */
async function bareSigner(token: string): Promise<() => Promise<string>> {
  const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' })
  const { iss, sub, aud, jti: _, iat: __, exp: ___, ...claims } = decodeJwt(token)
  return () =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT', kid: 'k'.repeat(43) })
      .setIssuer(iss!)
      .setSubject(sub!)
      .setAudience(aud!)
      .setJti(randomUUID())
      .setIssuedAt()
      .setExpirationTime('1d')
      .sign(privateKey)
}
