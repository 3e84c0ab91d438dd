import { fromBinary } from '@bufbuild/protobuf'
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { createLogger } from '@licensing/process/log'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import { createTestDatabase } from '@licensing/test-support/database'
import { startOwnNats } from '@licensing/test-support/nats'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { ConsumerOptions } from '../consumer-options.ts'
import { startConsumer } from '../consumer.ts'
import type { Consumer } from '../consumer.ts'
import { append } from '../outbox.ts'
import { consumerMigrations, outboxMigrations } from '../migrations.ts'
import { recordEffects } from './effects.ts'

export const log = createLogger('test', process.env.TEST_LOG_LEVEL ?? 'silent')

/** A database with the tables of sender and consumer. */
export async function givenDatabase(serverUrl?: string) {
  const database = await createTestDatabase(serverUrl)
  const sql = connect(database.url, { name: 'test', max: 10 })
  await migrate(sql, [outboxMigrations, consumerMigrations])
  await sql`
    create table effects (
      place bigint generated always as identity, event_id text primary key, account_id text, number int
    )`
  return {
    sql,
    databaseUrl: database.url,
    [Symbol.asyncDispose]: async () => {
      await sql.end({ timeout: 5 })
      await database[Symbol.asyncDispose]()
    },
  }
}

/** A NATS server beside such a database. */
export async function givenServers(serverUrl?: string) {
  const database = await givenDatabase(serverUrl)
  const server = await startOwnNats()
  return {
    ...database,
    server,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]()
      await database[Symbol.asyncDispose]()
    },
  }
}

/** Appends the events `from`…`to` of an account, each in its own transaction, as changes of one aggregate would. */
export async function whenChanged(sql: Database, accountId: string, from: number, to: number): Promise<void> {
  for (let number = from; number <= to; number += 1) {
    await sql.begin((tx) => append(tx, suspended(accountId, number)))
  }
}

export function suspended(accountId: string, number: number) {
  return {
    accountId,
    applicationId: 'app_1',
    payload: {
      case: 'licenceSuspended' as const,
      value: { licenceId: String(number), status: 'suspended' },
    },
  }
}

/** A consumer with effects that tests can read. */
export function consume(options: Pick<ConsumerOptions, 'sql' | 'nats'> & Partial<ConsumerOptions>): Consumer {
  return startConsumer({
    service: 'notifier',
    source: 'licensing',
    log,
    handle: recordEffects,
    isTransient: isDatabaseUnavailable,
    ...options,
  })
}

/** A relay or a consumer in its own process. */
export async function startWorker(role: 'relay' | 'consumer', databaseUrl: string, natsUrl: string) {
  const child = spawn(process.execPath, [fileURLToPath(new URL('worker.ts', import.meta.url))], {
    env: { ...process.env, ROLE: role, DATABASE_URL: databaseUrl, NATS_URL: natsUrl },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await once(child.stdout, 'data')
  return {
    /** All output of the process, including its log. */
    output: () => output,
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL')
        await once(child, 'exit')
      }
    },
  }
}

/** The events of a log in the order of their numbers, and when each was numbered. */
export async function logContents(
  sql: Database,
): Promise<{ accountId: string; number: number; at: number }[]> {
  const rows = await sql<{ batch: Buffer; created_at: Date }[]>`
    select events as batch, created_at from event_log order by partition, number`
  return rows.flatMap(({ batch, created_at: createdAt }) =>
    fromBinary(EventBatchSchema, batch).events.map((logged) => {
      const { accountId, payload } = fromBinary(EventSchema, logged.event)
      const number = payload.case === 'licenceSuspended' ? Number(payload.value.licenceId) : Number.NaN
      return { accountId, number, at: createdAt.getTime() }
    }),
  )
}

/** The consumed events, in the order of their effects. */
export async function effectsOf(sql: Database): Promise<{ accountId: string; number: number }[]> {
  return sql<{ accountId: string; number: number }[]>`
    select account_id as "accountId", number from effects order by place`
}

/** The numbers of each account, in the order given. */
export function byAccount(rows: { accountId: string; number: number }[]): Record<string, number[]> {
  const accounts: Record<string, number[]> = {}
  for (const { accountId, number } of rows) (accounts[accountId] ??= []).push(number)
  return accounts
}

export const upTo = (last: number) => Array.from({ length: last }, (_, at) => at + 1)
