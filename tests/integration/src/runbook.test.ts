import { fullTest } from '@licensing/test-support/drawn'
import { connect } from '@licensing/database/connect'
import type { DatabaseService } from '@licensing/local-servers/services'
import { consumersOf } from '@licensing/proto/event-streams'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { blocksOfPage, blocksOfRunbook } from '@licensing/test-support/runbook'
import { sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { rm } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { withContainers } from './engine.ts'
import { buildThisRelease } from './releases.ts'
import { expectRestored, startShopLoad } from './shop-load.ts'

const databasesIn = (commands: string) =>
  /for db in ([^;]+);/.exec(commands)![1]!.split(' ') as DatabaseService[]

/**
 * Does what the runbook's commands do, with processes instead of containers: its databases are copied one after the other.
 * Only connections to the one that is being copied are refused meanwhile.
 */
async function copies(stack: Stack, backUpCommands: string) {
  const sql = connect(sharedPostgresUrl(), { name: 'runbook-test', max: 1 })
  const databases = databasesIn(backUpCommands).map((service) => {
    const { pathname, username } = new URL(stack.databaseUrls[service])
    return { name: pathname.slice(1), owner: username, copy: `${pathname.slice(1)}_backup` }
  })
  const all = () => Object.values(stack.processes).flat()
  return {
    /** @param between runs after each database */
    backUp: async (between: () => Promise<void>) => {
      for (const { name, owner, copy } of databases) {
        await sql`alter database ${sql(name)} allow_connections false`
        await sql`select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = ${name}`
        await sql`create database ${sql(copy)} owner ${sql(owner)} template ${sql(name)}`
        await sql`alter database ${sql(name)} allow_connections true`
        await between()
      }
    },
    restoreAll: async () => {
      await Promise.all([...all().map((each) => each.stop()), stack.nats.stop()])
      await rm(stack.nats.storeDir, { recursive: true, force: true })
      for (const { name, copy } of databases) {
        await sql`drop database ${sql(name)} with (force)`
        await sql`alter database ${sql(copy)} rename to ${sql(name)}`
      }
      await stack.nats.start()
      await Promise.all(all().map((each) => each.start()))
    },
    [Symbol.asyncDispose]: async () => {
      for (const { copy } of databases) await sql`drop database if exists ${sql(copy)} with (force)`
      await sql.end({ timeout: 5 })
    },
  }
}

async function givenLicence({ api, appId }: Stack): Promise<string> {
  const app = `/v1/apps/${appId}`
  const plan = await api.post<{ id: string }>(`${app}/plans`, { body: { name: 'Pro', code: 'pro' } })
  const licence = await api.post<{ id: string }>(`${app}/licences`, {
    headers: { 'idempotency-key': 'order-1' },
    body: { external_ref: 'customer-1', plan_id: plan.body.id },
  })
  expect(licence.status).toBe(201)
  return licence.body.id
}

/** Suspends and reactivates a licence, which sends two events. */
async function change({ api }: Stack, licenceId: string): Promise<void> {
  for (const verb of ['suspend', 'reactivate']) {
    await eventually(async () =>
      expect(await api.post(`/v1/licences/${licenceId}/${verb}`)).toMatchObject({ status: 200 }),
    )
  }
}

async function expectSequences({ api }: Stack, count: number): Promise<void> {
  const expected = Array.from({ length: count }, (_, at) => at + 1)
  await eventually(async () => {
    const { body } = await api.get<{ data: { sequence: number }[] }>('/v1/events?after=0')
    expect(body.data.map(({ sequence }) => sequence)).toEqual(expected)
  })
}

test('each backup is taken before those of the services whose events it consumes', async () => {
  const [backUp] = await blocksOfRunbook('Backup and restore')
  const order: string[] = databasesIn(backUp!)
  for (const [source, consumers] of Object.entries(consumersOf)) {
    // Catalog's audit log keeps the entries of changes that a restored service has lost.
    const others = consumers.filter((consumer) => consumer !== 'catalog')
    for (const consumer of others) expect(order.indexOf(consumer)).toBeLessThan(order.indexOf(source))
  }
  // Billing has effects in licensing by RPC.
  expect(order.indexOf('billing')).toBeLessThan(order.indexOf('licensing'))
  expect(order.toSorted()).toEqual(['billing', 'catalog', 'licensing', 'notifier'])
})

test.runIf(withContainers)(
  'the runbook’s commands replace a killed NATS, restore one service and restore all services, without a lost event',
  async () => {
    const [backUp, restoreAll, restoreOne] = await blocksOfRunbook('Backup and restore')
    const [replaceNats] = await blocksOfRunbook('NATS after a power failure, and how to replace it')
    process.env['TEST_COMPOSE'] = await buildThisRelease(true)
    await using receiver = await startHttpsReceiver()
    await using stack = await startStack({ receiver })
    const licenceId = await givenLicence(stack)
    const endpoint = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, {
      body: { url: receiver.url(), subscribed_events: '*' },
    })
    expect(endpoint.status, JSON.stringify(endpoint.body)).toBe(201)
    await change(stack, licenceId)
    await expectSequences(stack, 2)

    await stack.runCommands!('dc kill nats')
    await change(stack, licenceId)
    const [findEvents] = await blocksOfPage('lost-webhook', '3. Where does its trace end?')
    expect(await stack.runCommands!(findEvents!)).toMatch(/^ +2 \| \d{4}-/m)
    await stack.runCommands!(replaceNats!)
    await change(stack, licenceId)
    await expectSequences(stack, 6)

    await stack.runCommands!(backUp!)
    await change(stack, licenceId)
    await expectSequences(stack, 8)
    await stack.runCommands!(restoreOne!)
    // The notifier has read the missing events from licensing's log.
    await expectSequences(stack, 8)
    await change(stack, licenceId)
    await expectSequences(stack, 10)

    await stack.runCommands!(restoreAll!)
    // The sequences have the state of the backup.
    await expectSequences(stack, 6)
    await change(stack, licenceId)
    await expectSequences(stack, 8)
  },
)

fullTest(
  'a backup that is taken under load is restored without losing what was acknowledged before it, and the services agree',
  async () => {
    const [backUp, restoreAll] = await blocksOfRunbook('Backup and restore')
    if (withContainers) process.env['TEST_COMPOSE'] = await buildThisRelease(true)
    // Billing learns again of a refund that only licensing remembers. The compose file has the default, five minutes.
    const environment = withContainers ? {} : { RECONCILE_INTERVAL_SECONDS: '1' }
    await using stack = await startStack({ simulator: true, environment })
    await using load = await startShopLoad(stack)
    await load.more(2)
    const before = load.acknowledged()
    if (withContainers) {
      await stack.runCommands!(backUp!)
      await load.more(2)
      await load.stop()
      await stack.runCommands!(restoreAll!)
      await expectRestored(stack, load, before)
      return
    }
    await using databases = await copies(stack, backUp!)
    await databases.backUp(() => load.more(1))
    await load.stop()
    await databases.restoreAll()
    await expectRestored(stack, load, before)
  },
)
