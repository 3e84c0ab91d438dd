import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { migrate } from '@licensing/database/migrate'
import { eventually } from '@licensing/test-support/poll'
import { sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { randomBytes } from 'node:crypto'
import { connectNats } from '../connection.ts'
import { consumerMigrations, outboxMigrations } from '../migrations.ts'
import { append } from '../outbox.ts'
import { startRelay } from '../relay.ts'
import { findEffects } from './effects.ts'
import { byAccount, consume, effectsOf, log, suspended } from './given.ts'

/** A service with a database of its own that can be stopped, backed up and restored. */
interface Service {
  sql: Database
  start(): Promise<void>
  stop(): Promise<void>
  /** Copies its database. The service is stopped meanwhile. */
  backUp(): Promise<void>
  /** Stops the service and replaces its database by the copy. */
  restore(): Promise<void>
}

/** How the processes reach NATS. */
export interface Addresses {
  sender: string
  receiver: string
  replicas: number
}

export type Pipeline = Awaited<ReturnType<typeof givenPipeline>>

/** A producer and a consumer as two services: each with a database of its own, connected only by NATS. */
export async function givenPipeline({ sender, receiver, replicas }: Addresses) {
  await using started = new AsyncDisposableStack()
  let wake = () => {}
  let partitions: number | undefined
  const producer = started.use(
    await givenService([outboxMigrations], async (sql, running) => {
      const nats = running.adopt(await connectNats(sender, 'licensing', log), (open) => open.close())
      const relay = startRelay({ sql, nats, source: 'licensing', streamReplicas: replicas, partitions, log })
      running.defer(() => relay.stop())
      wake = () => relay.wake()
    }),
  )
  const consumer = started.use(
    await givenService([consumerMigrations], async (sql, running) => {
      const nats = running.adopt(await connectNats(receiver, 'notifier', log), (open) => open.close())
      const reading = consume({ sql, nats, findKnown: findEffects })
      running.defer(() => reading.stop())
    }),
  )
  await consumer.sql`
    create table effects (
      place bigint generated always as identity, event_id text primary key, account_id text, number int
    )`
  const running = started.move()
  return {
    producer,
    consumer,
    /** Starts the producer again, with more partitions, and returns when its log has them. */
    async grow(count: number): Promise<void> {
      partitions = count
      await producer.stop()
      await producer.start()
      await eventually(async () => {
        const [state] = await producer.sql<{ numbers: bigint[] }[]>`select numbers from event_log_state`
        if (state!.numbers.length < count) throw new Error('the log has not grown')
      })
    },
    /** Commits the events `from`…`to` of an account, each in its own transaction. */
    async change(accountId: string, from: number, to: number): Promise<void> {
      for (let number = from; number <= to; number += 1) {
        await transaction(producer.sql, (tx) => append(tx, suspended(accountId, number)))
        wake()
      }
    },
    /** The numbers consumed of each account, in the order of consumption. */
    consumed: async () => byAccount(await effectsOf(consumer.sql)),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function givenService(
  migrations: Parameters<typeof migrate>[1],
  run: (sql: Database, running: AsyncDisposableStack) => Promise<void>,
): Promise<Service & AsyncDisposable> {
  const name = `test_${randomBytes(8).toString('hex')}`
  const copy = `${name}_copy`
  const url = new URL(sharedPostgresUrl())
  await administer((sql) => sql`create database ${sql(name)}`)
  url.pathname = `/${name}`
  const open = () => connect(url.href, { name, max: 10 })
  let sql = open()
  await migrate(sql, migrations)
  let running: AsyncDisposableStack | undefined
  const service: Service = {
    get sql() {
      return sql
    },
    async start() {
      running ??= new AsyncDisposableStack()
      await run(sql, running)
    },
    async stop() {
      await running?.disposeAsync()
      running = undefined
    },
    async backUp() {
      const wasRunning = running !== undefined
      await service.stop()
      await sql.end({ timeout: 5 })
      await administer((admin) => admin`create database ${admin(copy)} template ${admin(name)}`)
      sql = open()
      if (wasRunning) await service.start()
    },
    async restore() {
      await service.stop()
      await sql.end({ timeout: 5 })
      await administer(async (admin) => {
        await admin`drop database ${admin(name)} with (force)`
        await admin`create database ${admin(name)} template ${admin(copy)}`
      })
      sql = open()
    },
  }
  return Object.assign(service, {
    [Symbol.asyncDispose]: async () => {
      await service.stop()
      await sql.end({ timeout: 5 })
      await administer(async (admin) => {
        await admin`drop database if exists ${admin(name)} with (force)`
        await admin`drop database if exists ${admin(copy)} with (force)`
      })
    },
  })
}

async function administer(work: (sql: Database) => Promise<unknown>): Promise<void> {
  const sql = connect(sharedPostgresUrl(), { name: 'test', max: 1 })
  try {
    await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}
