// Counts that do not depend on the machine: the work of a request for the services and for PostgreSQL.
import { connect, type Sql } from '@licensing/database/connect'
import { startCountingPostgres } from '@licensing/test-support/counting-postgres'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenDefinitions, givenInstallations, givenLicences, givenPlan } from './vendor.ts'
import type { Installation } from './vendor.ts'

/** The work of one request, including its event until a consumer has processed it. */
interface Count {
  rpcs: number
  /** Statements that licensing sends to PostgreSQL. */
  statements: number
  roundTrips: number
}

/** The limits. If a change needs less, lower the number here. */
const max: Record<string, Count> = {
  issue: { rpcs: 1, statements: 1, roundTrips: 1 },
  suspend: { rpcs: 1, statements: 10, roundTrips: 3 },
  // One statement and round trip more than suspend for the plan's lock; three statements and a round trip for the key.
  'reactivate with a key': { rpcs: 1, statements: 14, roundTrips: 5 },
  'rotate a key': { rpcs: 1, statements: 6, roundTrips: 4 },
  'rotate a key with a key': { rpcs: 1, statements: 9, roundTrips: 4 },
  refresh: { rpcs: 1, statements: 2, roundTrips: 2 },
  'activation of a known machine': { rpcs: 1, statements: 2, roundTrips: 2 },
  detail: { rpcs: 1, statements: 1, roundTrips: 1 },
  'unchanged revocation list': { rpcs: 1, statements: 1, roundTrips: 1 },
}

/** Rows that are written for one event with one endpoint. */
const maxRows = { licensing: 10, notifier: 11 }

// The requests run one after the other, because concurrent requests share statements. Background work adds less than one
// statement per request.
const requests = 30

// Enough events that the rows written in the background are less than one row per event.
const events = 50
const rounds = 3
const counts = ['rpcs', 'statements', 'roundTrips'] as const

const started = new AsyncDisposableStack()
let postgres: Awaited<ReturnType<typeof startCountingPostgres>>
let receiver: Awaited<ReturnType<typeof startHttpsReceiver>>
let stack: Stack
let planId: string
beforeAll(async () => {
  postgres = started.use(await startCountingPostgres(sharedPostgresUrl()))
  receiver = started.use(await startHttpsReceiver())
  const options = { postgresUrl: postgres.url, receiver }
  // Few connections, because each statement is prepared on each connection.
  const environment = { DATABASE_CONNECTIONS: '4', RATE_LIMIT_PER_MINUTE: '1000000' }
  stack = started.use(await startStack({ ...options, environment }))
  await givenDefinitions(stack)
  planId = await givenPlan(stack, 'pro')
})
afterAll(() => started.disposeAsync())

test('a request takes no more RPCs, statements and round trips than listed', async () => {
  const licences = await givenLicences(stack, planId, (rounds + 1) * requests, 'suspended')
  const installations = await givenInstallations(stack, planId, requests)
  const read = async () => ({ ...postgres.workOf('licensing'), rpcs: await rpcsOf(stack) })
  const sql = connect(stack.databaseUrls.licensing, { name: 'counts', max: 1 })
  const counted: Record<string, Count> = {}
  for (const [name, call] of Object.entries(calls(stack, sql, { licences, installations }))) {
    for (let n = 0; n < requests; n += 1) await call(n)
    // On a busy machine more background work runs meanwhile, so the round with the fewest counts.
    const isMore = (count: Count | undefined) =>
      count === undefined || counts.some((of) => count[of] > max[name]![of])
    for (let round = 1; round <= rounds && isMore(counted[name]); round += 1) {
      const before = await read()
      for (let n = 0; n < requests; n += 1) await call(round * requests + n)
      const after = await read()
      const perRequest = (of: keyof Count) =>
        Math.min(counted[name]?.[of] ?? Infinity, Math.floor((after[of] - before[of]) / requests))
      counted[name] = {
        rpcs: perRequest('rpcs'),
        statements: perRequest('statements'),
        roundTrips: perRequest('roundTrips'),
      }
    }
  }
  await sql.end()
  expect(counted).toEqual(max)
})

test('an event with one delivery writes no more rows than listed', async () => {
  const endpoint = { url: receiver.url('/'), subscribed_events: 'licence.suspended' }
  await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, { body: endpoint })
  const licences = await givenLicences(stack, planId, (rounds + 1) * events, 'delivered')
  const suspend = async (from: number) => {
    for (let n = from; n < from + events; n += 1) {
      const { status } = await stack.api.post(`/v1/licences/${licences[n]}/suspend`)
      expect(status).toBe(200)
      await receiver.received(n + 1)
    }
  }
  await suspend(0)
  let before = await rowsWritten(stack)
  // On a busy machine a delivery may wait for its turn, which writes more rows, so the round with the fewest rows counts.
  const fewest = { licensing: Number.POSITIVE_INFINITY, notifier: Number.POSITIVE_INFINITY }
  const isMore = (service: Writer) => fewest[service] > maxRows[service]
  for (let round = 1; round <= rounds && (isMore('licensing') || isMore('notifier')); round += 1) {
    await suspend(round * events)
    const after = await rowsWritten(stack)
    for (const service of ['licensing', 'notifier'] as const) {
      const perEvent = Math.floor((after[service] - before[service]) / events)
      fewest[service] = Math.min(fewest[service], perEvent)
    }
    before = after
  }
  expect(fewest.licensing).toBeLessThanOrEqual(maxRows.licensing)
  expect(fewest.notifier).toBeLessThanOrEqual(maxRows.notifier)
})

type Writer = keyof typeof maxRows

// Tables in which rows are updated regularly, regardless of the number of events.
const leaseTables = ['consumer_positions']

/** Rows inserted, changed and deleted in the databases so far. PostgreSQL counts them when a session ends. */
async function rowsWritten({ processes, databaseUrls }: Stack): Promise<Record<Writer, number>> {
  const written = async (service: Writer) => {
    const sql = connect(databaseUrls[service], { name: 'counts', max: 1 })
    await sql`
      select pg_terminate_backend(pid, 30000) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`
    const [row] = await sql<{ rows: number }[]>`
      select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as rows from pg_stat_user_tables
      where relname not in ${sql(leaseTables)}`
    await sql.end()
    await processes[service][0]!.untilReady()
    return row!.rows
  }
  return { licensing: await written('licensing'), notifier: await written('notifier') }
}

interface Given {
  licences: string[]
  installations: Installation[]
}

type CallOf = (n: number) => Promise<void>

function calls({ api, appId }: Stack, sql: Sql, { licences, installations }: Given): Record<string, CallOf> {
  /** Waits until the event is published, because the relay publishes waiting events together. */
  const whenPublished = () =>
    eventually(
      async () => {
        const [row] = await sql<{ isEmpty: boolean }[]>`select not exists (select from outbox) as "isEmpty"`
        expect(row!.isEmpty).toBe(true)
      },
      { intervalMs: 5 },
    )
  const of = (n: number) => installations[n % installations.length]!
  const list = `/v1/apps/${appId}/revocations`
  let etag = ''
  return {
    issue: async (n) => {
      const body = { external_ref: `customer-${n}`, plan_id: planId }
      const headers = { 'idempotency-key': randomUUID() }
      expect((await api.post(`/v1/apps/${appId}/licences`, { body, headers })).status).toBe(201)
      await whenPublished()
    },
    suspend: async (n) => {
      expect((await api.post(`/v1/licences/${licences[n]}/suspend`)).status).toBe(200)
      await whenPublished()
    },
    'reactivate with a key': async (n) => {
      const headers = { 'idempotency-key': randomUUID() }
      expect((await api.post(`/v1/licences/${licences[n]}/reactivate`, { headers })).status).toBe(200)
      await whenPublished()
    },
    'rotate a key': async (n) => {
      expect((await api.post(`/v1/licences/${licences[n]}/rotate-key`)).status).toBe(200)
    },
    'rotate a key with a key': async (n) => {
      const headers = { 'idempotency-key': randomUUID() }
      expect((await api.post(`/v1/licences/${licences[n]}/rotate-key`, { headers })).status).toBe(200)
    },
    refresh: async (n) => {
      const { id, token, body } = of(n)
      const { host, product_version } = body
      const headers = { authorization: `Bearer ${token}` }
      const request = { body: { host, product_version }, headers, key: null }
      expect((await api.post(`/v1/activations/${id}/refresh`, request)).status).toBe(200)
    },
    'activation of a known machine': async (n) => {
      expect((await api.post('/v1/activations', { body: of(n).body, key: null })).status).toBe(200)
    },
    detail: async (n) => {
      expect((await api.get(`/v1/licences/${licences[n]}`)).status).toBe(200)
    },
    'unchanged revocation list': async () => {
      const headers = etag === '' ? {} : { 'if-none-match': etag }
      const answer = await api.get(list, { headers, key: null })
      expect(answer.status).toBe(etag === '' ? 200 : 304)
      etag = answer.headers.get('etag')!
    },
  }
}

/** RPCs that the services have served. */
async function rpcsOf({ processes }: Stack): Promise<number> {
  const { catalog, licensing, billing, notifier } = processes
  const counts = await Promise.all(
    [catalog, licensing, billing, notifier].flat().map(async ({ environment }) => {
      const text = await (await fetch(`http://${environment['METRICS_ADDRESS']}/metrics`)).text()
      const lines = text.matchAll(/^grpc_server_duration_seconds_count\{[^}]*\} (\d+)$/gm)
      return [...lines].reduce((sum, [, count]) => sum + Number(count), 0)
    }),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}
