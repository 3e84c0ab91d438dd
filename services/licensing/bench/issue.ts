import { createChange } from '@licensing/changes/change'
/**
 * Measures the cost of an issue, in this process and without gRPC: `DATABASE_URL=postgres://… node bench/issue.ts`, a server on
 * which it can create a database. It alternates the measures and prints the best round of each. Results on 2 busy cores:
 *
 * - the bare statement with one licence each, 64 at a time: 2,000/s, 150 µs of this process's CPU, 550 of PostgreSQL's
 * - the bare statement with 64 licences, one at a time: 5,800/s, 22 µs and 60
 * - the handler with 64 callers: 6,100/s, 37 µs; 11,000/s with idle cores
 */
import { create } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { connectTo } from '@licensing/grpc/client'
import { createLogger } from '@licensing/process/log'
import { CatalogService, PlanCopySchema } from '@licensing/proto/catalog'
import { IssueLicenceRequestSchema } from '@licensing/proto/licensing'
import { createTestDatabase } from '@licensing/test-support/database'
import { createIssueLicence } from '../src/licences/issue-licence.ts'
import { insertLicences } from '../src/licences/issue-queries.ts'
import { licenceFields } from '../src/lifecycle/licence-fields.ts'
import { newLicenceKey } from '../src/lifecycle/licence-key.ts'
import { licensingMigrations } from '../src/migrations.ts'
import { applyPlanCopies } from '../src/plans/apply-plan-copies.ts'
import { createSnapshots } from '../src/plans/snapshots.ts'
import { connectPools, createListQueue } from '../src/pools.ts'

const callers = Number(process.env['CALLERS'] ?? 64)
const rounds = 5
const roundMs = 2_000

await using database = await createTestDatabase(process.env['DATABASE_URL'])
const { sql, lists } = connectPools({ DATABASE_URL: database.url, DATABASE_CONNECTIONS: 20 })
await migrate(sql, licensingMigrations)
const change = createChange(sql)
const catalog = connectTo(CatalogService, '127.0.0.1:1')
const snapshots = createSnapshots(sql)
const issue = createIssueLicence({
  sql,
  lists,
  listQueue: createListQueue(lists),
  snapshots,
  catalog: catalog.calls,
  change,
  log: createLogger('bench'),
})

const [accountId, applicationId, planId] = [newId('acct'), newId('app'), newId('pln')]
const entitlements = [{ key: 'export', kind: 'feature', value: 'true', default: 'false' }]
const plan = create(PlanCopySchema, {
  id: planId,
  accountId,
  applicationId,
  status: 'active',
  version: 1n,
  entitlements,
})
await change((tx) => applyPlanCopies(tx, [plan]))

/** Runs `work` repeatedly, in this many concurrent loops. */
async function rate(
  loops: number,
  work: () => Promise<number>,
): Promise<{ perSecond: number; cpuUs: number }> {
  const [started, cpu] = [performance.now(), process.cpuUsage()]
  let done = 0
  const loop = async () => {
    while (performance.now() - started < roundMs) {
      const made = await work()
      done += made
    }
  }
  await Promise.all(Array.from({ length: loops }, loop))
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond: (done / (performance.now() - started)) * 1000, cpuUs: (user + system) / done }
}

let unique = 0
const newLicence = () => ({
  ...licenceFields.none,
  id: newId('lic'),
  key: newLicenceKey(),
  account_id: accountId,
  application_id: applicationId,
  plan_id: planId,
  actor: 'key_1',
  external_ref: `customer-${(unique += 1) % 10_000}`,
  idempotency_key: newId('evt'),
  idempotency_hash: `\\x${'00'.repeat(32)}`,
})
const measures = {
  'bare statement, one licence each': () =>
    rate(
      callers,
      async () => (await insertLicences(sql, { kind: 'issued', licences: [newLicence()] }, 'skip')).size,
    ),
  'bare statement, batches': () =>
    rate(1, async () => {
      const licences = Array.from({ length: callers }, newLicence)
      return (await insertLicences(sql, { kind: 'issued', licences }, 'skip')).size
    }),
  'the handler': () =>
    rate(callers, async () => {
      const { idempotency_key: idempotencyKey, external_ref: externalRef } = newLicence()
      const request = {
        accountId,
        applicationId,
        actor: 'key_1',
        planId,
        idempotencyKey,
        fields: { externalRef },
      }
      await issue(create(IssueLicenceRequestSchema, { ...request, bodyHash: new Uint8Array(32) }))
      return 1
    }),
}

const best = new Map<string, { perSecond: number; cpuUs: number }>()
for (let round = 0; round < rounds; round += 1) {
  for (const [name, measure] of Object.entries(measures)) {
    const result = await measure()
    if (result.perSecond > (best.get(name)?.perSecond ?? 0)) best.set(name, result)
  }
}
for (const [name, { perSecond, cpuUs }] of best) {
  console.log(`${name}: ${perSecond.toFixed(0)}/s, ${cpuUs.toFixed(0)} µs of this process’s CPU each`)
}
catalog.close()
await Promise.all([sql.end(), lists.end()])
