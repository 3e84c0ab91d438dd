import { fullTest } from '@licensing/test-support/drawn'
import { create, fromBinary } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { connect } from '@licensing/database/connect'
import { givenProducer } from '@licensing/events/testing/producer'
import { connectTo } from '@licensing/grpc/client'
import type { PlanCopy } from '@licensing/proto/catalog'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import { LicensingService } from '@licensing/proto/licensing'
import { PurchaseService } from '@licensing/proto/purchases'
import { createTestDatabase } from '@licensing/test-support/database'
import { freeAddress } from '@licensing/test-support/free-address'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { planCopy, startCatalogStandIn, forFile } from './harness.ts'
import { actor } from './makers.ts'
import { bought } from './purchases.ts'

const vendor = { accountId: newId('acct'), applicationId: newId('app') }
const archived = (plan: PlanCopy) =>
  planCopy(vendor, { id: plan.id, version: 2n, status: 'retired', archiveVersion: 2n, archivedBy: actor })

const changed = (plans: PlanCopy[]) => {
  const value = { changed: plans.map(({ id: planId, version }) => ({ planId, version })) }
  return create(EventSchema, { id: newId('evt'), ...vendor, payload: { case: 'planCopyChanged', value } })
}

/** The servers that the process needs. */
async function givenSurroundings(postgresUrl?: string) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase(postgresUrl))
  const nats = starting.use(await startOwnNats())
  const producer = starting.use(await givenProducer(nats.urlOf('catalog'), 'catalog'))
  const catalog = starting.use(await startCatalogStandIn())
  const folder = starting.use(await makeTemporaryFolder())
  const environment = {
    GRPC_ADDRESS: await freeAddress(),
    METRICS_ADDRESS: await freeAddress(),
    DATABASE_URL: database.url,
    NATS_URL: nats.urlOf('licensing'),
    CATALOG_ADDRESS: `127.0.0.1:${catalog.port}`,
    ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
    SWEEP_INTERVAL_SECONDS: '1',
  }
  const licensing = connectTo(LicensingService, environment.GRPC_ADDRESS)
  starting.defer(() => licensing.close())
  const purchases = connectTo(PurchaseService, environment.GRPC_ADDRESS)
  starting.defer(() => purchases.close())
  const sql = connect(database.url, { name: 'test', max: 1 })
  starting.defer(() => sql.end({ timeout: 5 }))
  const running = starting.move()
  return {
    sql,
    nats,
    catalog,
    environment,
    calls: licensing.calls,
    purchases: purchases.calls,
    start: (waitMs?: number) =>
      startService('licensing', environment, folder.path, { ...(waitMs !== undefined && { waitMs }) }),
    issueOn: (plan: PlanCopy, key: string = newId('evt')) =>
      licensing.calls.issueLicence({
        ...vendor,
        actor,
        idempotencyKey: key,
        bodyHash: Buffer.alloc(32),
        fields: { externalRef: 'customer' },
        planId: plan.id,
      }),
    /** Publishes events of catalog, also while its RPCs are unavailable. */
    publish: (plans: PlanCopy[]) => producer.publish([changed(plans)]),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

const readiness = async (operationsUrl: string) => {
  const answer = await fetch(`${operationsUrl}/readyz`)
  return { status: answer.status, body: await answer.text() }
}

const around = await forFile(givenSurroundings)
const plans = Array.from({ length: 450 }, () => planCopy(vendor))
for (const plan of plans) around.catalog.state.copies.set(plan.id, plan)
await forFile(around.start)

test('it copies all pages of catalog’s plans before it is ready', async () => {
  around.catalog.state.unavailable = true
  for (const plan of [plans[0]!, plans[199]!, plans[200]!, plans[449]!]) {
    expect(await around.issueOn(plan)).toMatchObject({ replayed: false })
  }
  around.catalog.state.unavailable = false
})

test('if catalog is unavailable, it is ready when it has consumed all events of catalog', async () => {
  await using around = await givenSurroundings()
  around.catalog.state.unavailable = true
  const plans = Array.from({ length: 20 }, () => planCopy(vendor))
  for (const plan of plans) await around.publish([plan])
  await around.publish([archived(plans[3]!)])
  await using _ = await around.start()
  await expect(around.issueOn(plans[19]!)).rejects.toMatchObject({ code: 'unavailable' })
  const { state } = around.catalog
  for (const plan of plans) state.copies.set(plan.id, plan)
  state.copies.set(plans[3]!.id, archived(plans[3]!))
  state.unavailable = false
  expect(await around.issueOn(plans[19]!)).toMatchObject({ replayed: false })
  await expect(around.issueOn(plans[3]!)).rejects.toMatchObject({ code: 'plan_archived' })
})

fullTest(
  'if catalog and NATS are unavailable, it is not ready and reports why; with NATS it is ready',
  async () => {
    await using around = await givenSurroundings()
    around.catalog.state.unavailable = true
    await around.nats.stop()
    await using service = await around.start(0)
    await eventually(async () => {
      const { status, body } = await readiness(service.operationsUrl)
      expect(status).toBe(503)
      expect(body).toContain('plan copies are not complete yet')
    })
    await around.nats.start()
    await service.untilReady()
  },
)

test('an archive that arrives only by event suspends licences, and their events are published', async () => {
  const plan = planCopy(vendor)
  around.catalog.state.copies.set(plan.id, plan)
  const { licence } = await around.issueOn(plan)
  around.catalog.state.copies.set(plan.id, archived(plan))
  await around.publish([archived(plan)])
  const scope = { accountId: vendor.accountId, licenceId: licence!.id }
  await eventually(async () => {
    const detail = await around.calls.getLicence(scope)
    expect(detail.licence).toMatchObject({ status: 'suspended', statusReason: 'plan_archived' })
  })
  expect(await around.calls.archivePlan({ plan: archived(plan) })).toMatchObject({ suspendedLicences: 1n })

  const logged = await eventually(async () => {
    const rows = await around.sql<{ batch: Buffer }[]>`select events as batch from event_log`
    expect(rows).toHaveLength(1)
    return fromBinary(EventBatchSchema, rows[0]!.batch).events
  })
  expect(fromBinary(EventSchema, logged[0]!.event)).toMatchObject({
    ...vendor,
    payload: { value: { licenceId: licence!.id, status: 'suspended', reason: 'plan_archived' } },
  })
})

test('it sweeps in the background', async () => {
  const plan = planCopy(vendor)
  around.catalog.state.copies.set(plan.id, plan)
  const end = new Date(Math.ceil(Date.now() / 1000 + 1) * 1000)
  const licence = await bought({ ...vendor, purchases: around.purchases }, plan.id, end)
  const scope = { accountId: vendor.accountId, licenceId: licence.id }
  await eventually(async () => {
    expect((await around.calls.getLicence(scope)).licence!.status).toBe('expired')
  })
})

fullTest('it recovers when PostgreSQL is available again, and every answered change is stored', async () => {
  await using postgres = await startOwnPostgres()
  await using around = await givenSurroundings(postgres.url())
  const plan = planCopy(vendor)
  around.catalog.state.copies.set(plan.id, plan)
  await using service = await around.start()
  const answered = new Map<string, string>()
  const refusals = new Set<string>()
  const stopped = new AbortController()
  const load = Array.from({ length: 8 }, async (_, caller) => {
    for (let at = 0; !stopped.signal.aborted; at += 1) {
      await sleep(20)
      const key = `${caller}-${at}`
      const answer = await around.issueOn(plan, key).catch((error: { code: string }) => error)
      if ('code' in answer) refusals.add(answer.code)
      else answered.set(key, answer.licence!.id)
    }
  })
  const goesOn = async () => {
    const before = answered.size
    await eventually(() => answered.size > before + 20)
  }
  for (const end of [() => postgres.kill(), () => postgres.stop()]) {
    await goesOn()
    await end()
    expect((await readiness(service.operationsUrl)).status).toBe(503)
    await postgres.start()
    await goesOn()
  }
  stopped.abort()
  await Promise.all(load)
  expect([...refusals].filter((code) => code !== 'unavailable')).toEqual([])
  for (const [key, id] of answered) {
    expect(await around.issueOn(plan, key)).toMatchObject({ replayed: true, licence: { id } })
  }
  const { counts } = await around.calls.countActiveLicences({ planIds: [plan.id] })
  expect(counts[0]).toBeGreaterThanOrEqual(BigInt(answered.size))
  expect(await service.stop()).toBe('exit code 0')
})
