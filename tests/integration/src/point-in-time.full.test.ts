import { startPostgres } from '@licensing/local-servers/postgres'
import { postgresPrograms } from '@licensing/test-support/installed-programs'
import { blocksOfRunbook } from '@licensing/test-support/runbook'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chown, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { expectRestored, startShopLoad, type ShopLoad } from './shop-load.ts'

if (!postgresPrograms) {
  process.stdout.write(
    'recovery to a point in time is not tested: this machine lacks the programs of PostgreSQL 17\n',
  )
}

/** A PostgreSQL, and the commands of the runbook as its operator runs them. */
async function startArchivedPostgres(folder: string) {
  const dataDir = join(folder, 'postgres')
  const backups = join(folder, 'backups')
  const server = await startPostgres({ dataDir, durable: false })
  const cluster = join(dataDir, 'cluster')
  const { uid, gid } = await stat(cluster)
  await mkdir(backups)
  await chown(backups, uid, gid)
  await chown(dataDir, uid, gid)
  const { port, password } = new URL(server.url())
  const environment = {
    PATH: `${postgresPrograms}:${process.env['PATH'] ?? ''}`,
    PGHOST: '127.0.0.1',
    PGPORT: port,
    PGUSER: 'postgres',
    PGPASSWORD: password,
    PGDATA: cluster,
    BACKUPS: backups,
  }
  return Object.assign(server, {
    cluster,
    backups,
    run: async (commands: string, further: Record<string, string> = {}) => {
      const options = { cwd: backups, env: { ...environment, ...further }, uid, gid }
      await promisify(execFile)('bash', ['--norc', '-euo', 'pipefail', '-c', commands], options)
    },
    /** How often a recovery has stopped before a change that is later than its moment. */
    stops: async () => {
      const log = await readFile(join(dataDir, 'postgres.log'), 'utf8')
      return [...log.matchAll(/recovery stopping before commit of transaction/g)].length
    },
  })
}

// PostgreSQL does not accept Z.
const now = () => new Date().toISOString().replace('Z', '+00')

/** Issues a licence as an order that the vendor's backend has stored. */
async function issue({ api, appId }: Stack, load: ShopLoad, order: string) {
  const answer = await api.post<{ id: string }>(`/v1/apps/${appId}/licences`, {
    headers: { 'idempotency-key': order },
    body: { external_ref: order, plan_id: load.planId },
  })
  expect(answer.status).toBe(201)
  return answer.body.id
}

interface FeedEvent {
  id: string
  sequence: number
  data: { object: { licence_id: string } }
}

/** The events of a licence, and the highest sequence of the account. */
async function feedOf({ api }: Stack, licenceId: string) {
  const events: FeedEvent[] = []
  for (let count = -1; events.length > count;) {
    count = events.length
    const after = events.at(-1)?.sequence ?? 0
    events.push(...(await api.get<{ data: FeedEvent[] }>(`/v1/events?after=${after}&limit=200`)).body.data)
  }
  const own = events.filter(({ data }) => data.object.licence_id === licenceId)
  return { own, last: events.at(-1)!.sequence }
}

test.skipIf(!postgresPrograms)(
  'the runbook’s commands restore all services to a moment under load: they agree, have all that was acknowledged before it, and nothing after it',
  { timeout: 300_000 },
  async () => {
    const [archive, backUp, restore, finish] = await blocksOfRunbook('Recovery to a point in time')
    await using folder = await makeTemporaryFolder()
    await using postgres = await startArchivedPostgres(folder.path)
    await postgres.run(archive!)
    await postgres.stop()
    await postgres.start()

    await using stack = await startStack({
      simulator: true,
      postgresUrl: postgres.url(),
      environment: { RECONCILE_INTERVAL_SECONDS: '1' },
    })
    await using load = await startShopLoad(stack)
    for (let night = 0; night < 2; night += 1) {
      await load.more(1)
      await postgres.run(backUp!, { KEEP: '1' })
    }
    expect((await readdir(postgres.backups)).filter((name) => name !== 'wal')).toHaveLength(1)
    const tooEarly = now()
    await load.more(2)
    const before = load.acknowledged()
    const moment = now()
    const order = randomUUID()
    const forgotten = await issue(stack, load, order)
    await stack.api.post(`/v1/licences/${forgotten}/suspend`)
    await load.more(2)
    await load.stop()
    const { own, last } = await feedOf(stack, forgotten)
    expect(own).toHaveLength(1)

    const processes = Object.values(stack.processes).flat()
    await Promise.all([...processes.map((each) => each.stop()), stack.nats.stop()])
    await rm(stack.nats.storeDir, { recursive: true, force: true })
    await postgres.stop()
    await postgres.run(restore!, { RESTORE_TO: tooEarly })
    await postgres.start()
    await postgres.run(finish!)
    await postgres.stop()
    await rm(postgres.cluster, { recursive: true })
    await rename(`${postgres.cluster}.before`, postgres.cluster)
    await postgres.run(restore!, { RESTORE_TO: moment, RESTORE_TIMELINE: '1' })
    await postgres.start()
    await postgres.run(finish!)
    expect(await postgres.stops()).toBe(2)
    await postgres.run(backUp!)
    await stack.nats.start()
    await Promise.all(processes.map((each) => each.start()))

    expect(await stack.api.get(`/v1/licences/${forgotten}`)).toMatchObject({ status: 404 })
    const again = await issue(stack, load, order)
    expect(again).not.toBe(forgotten)
    await stack.api.post(`/v1/licences/${again}/suspend`)
    await expectRestored(stack, load, before)
    // The sequence counts on from the moment: its numbers are those of forgotten events.
    const feed = await feedOf(stack, again)
    expect(feed.own[0]!.sequence).toBeLessThanOrEqual(last)
    expect(feed.own[0]!.id).not.toBe(own[0]!.id)
  },
)
