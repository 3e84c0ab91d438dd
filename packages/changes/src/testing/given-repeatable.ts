import { connect } from '@licensing/database/connect'
import type { Database, Transaction } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { withCallContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { createLogger } from '@licensing/process/log'
import { CreateApiKeyResponseSchema } from '@licensing/proto/catalog'
import { quotaMigrations } from '@licensing/quotas/migrations'
import { createTestDatabase } from '@licensing/test-support/database'
import { hash } from 'node:crypto'
import { idempotencyMigrations } from '../migrations.ts'
import { createChange } from '../change.ts'
import { createRepeatable } from '../repeatable.ts'

export interface CallOptions {
  key?: string
  body?: string
  path?: string
  accountId?: string
  deadlineMs?: number
}

interface Steps {
  /** Runs in the transaction, after the row is inserted. */
  during: (tx: Transaction) => Promise<unknown>
  /** Runs after the commit. */
  after?: () => Promise<unknown>
  /** How long the answer is, in characters. */
  answerLength?: number
}

const answerOf = ({ answerLength = 0 }: Steps) => ({
  schema: CreateApiKeyResponseSchema,
  toMessage: (row: { id: number }) => ({
    apiKey: { id: String(row.id), name: 'n'.repeat(answerLength) },
    key: 'a secret',
  }),
})

/** A table, and replicas that share its database. Each call inserts a row. */
export async function givenRepeatable({ replicas = 1, connections = 10 } = {}) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const sql = connect(database.url, { name: 'repeatable', max: 10 })
  starting.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, [quotaMigrations, idempotencyMigrations])
  await sql`create table made (id int generated always as identity primary key)`
  const steps: Steps = { during: () => Promise.resolve() }
  const pools = Array.from({ length: replicas }, () =>
    connect(database.url, { name: 'replica', max: connections }),
  )
  for (const pool of pools) starting.defer(() => pool.end({ timeout: 5 }))
  const handlers = pools.map((pool) => handlerOf(pool, steps))
  const running = starting.move()
  let calls = 0
  return {
    sql,
    steps,
    /** Calls the replicas in turn. */
    call: async (options: CallOptions = {}) => {
      const { answer, replayed } = await call(handlers[calls++ % replicas]!, options)
      return { id: answer.apiKey?.id, secret: answer.key, replayed }
    },
    made: async () => (await sql`select id from made`).length,
    records: async () =>
      sql<{ answer: Buffer; is_finished: boolean }[]>`select answer, is_finished from idempotency_keys`,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

function handlerOf(pool: Database, steps: Steps) {
  const change = createChange(pool)
  const repeatable = createRepeatable({ sql: pool, log: createLogger('test', 'silent') })
  return repeatable(CreateApiKeyResponseSchema, async (_request: object, unfinishedAnswer) => {
    const isUnfinished = steps.after !== undefined
    const answer = { ...answerOf(steps), isUnfinished }
    const insert = async (tx: Transaction) => {
      const [row] = await tx<{ id: number }[]>`insert into made default values returning id`
      await steps.during(tx)
      return row!
    }
    const made = unfinishedAnswer ?? answer.toMessage(await change(insert, { answer }))
    await steps.after?.()
    return made
  })
}

/** Calls a handler as the server does. */
export async function call<Answer>(
  handler: (request: object) => Promise<Answer>,
  { key, body = '', path = '/v1/things', accountId = 'acct_1', deadlineMs = 20_000 }: CallOptions,
): Promise<{ answer: Answer; replayed: boolean }> {
  const served: ServedKey | undefined =
    key === undefined
      ? undefined
      : { key, path, accountId, bodyHash: hash('sha256', body, 'buffer'), replayed: false }
  const context = {
    deadlineMs: Date.now() + deadlineMs,
    signal: new AbortController().signal,
    idempotencyKey: served,
  }
  const answer = await withCallContext(context, () => handler({}))
  return { answer, replayed: served?.replayed ?? false }
}
