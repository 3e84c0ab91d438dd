import postgres from 'postgres'

/** The pool or a transaction: the first argument of each query function. */
export type Sql = postgres.ISql<{ bigint: bigint }>

/** The pool itself. */
export type Database = postgres.Sql<{ bigint: bigint }>

/** A running transaction, with a connection of the pool that only it uses. */
export type Transaction = Sql & Pick<postgres.ReservedSql, 'finish' | 'release' | 'waitForever'>

/** A statement, or a part of one. */
export type Statement<R extends postgres.Row = postgres.Row> = postgres.PendingQuery<R[]>

export interface ConnectOptions {
  /** Shown in pg_stat_activity. */
  name: string
  /** Most connections at a time. */
  max?: number
  /** Longest time of one statement, in milliseconds. */
  statementTimeoutMs?: number
  /** Longest wait for one lock, in milliseconds. If absent, only `statementTimeoutMs` limits it. */
  lockTimeoutMs?: number
  /** PostgreSQL settings of every session, by name. */
  settings?: Record<string, string>
}

// The server answers at `statement_timeout` at the latest. The rest is time for the network.
const answerMarginSeconds = 5
const answerTimeout = (statementTimeoutMs: number) => statementTimeoutMs / 1000 + answerMarginSeconds

/**
 * Opens a pool. It connects lazily and reconnects by itself; int8 is read as bigint, timestamptz as Date.
 *
 * If the server's host dies, its connections may stay open and silent. A statement that has no answer some seconds after
 * `statementTimeoutMs` fails as unavailable, and its connection is replaced. Whether such a statement, or a commit, was
 * executed is not known.
 *
 * Only the server that accepts writes is used. If a standby has replaced it, connections to the former server are ended.
 *
 * @param url postgres://user:password@host:port/database; several `host:port` are separated by commas
 */
export function connect(url: string, options: ConnectOptions): Database {
  const statementTimeoutMs = options.statementTimeoutMs ?? 30_000
  return postgres(url, {
    target_session_attrs: 'primary',
    max: options.max ?? 10,
    connect_timeout: 5,
    onquiet: (sql) => void endLostSessions(sql),
    answer_timeout: answerTimeout(statementTimeoutMs),
    max_lifetime: 30 * 60,
    keep_alive: 30,
    backoff: (retries) => Math.min(0.05 * 2 ** Math.min(retries, 3), 0.25),
    onnotice: () => {},
    types: { bigint: postgres.BigInt },
    connection: {
      application_name: options.name,
      statement_timeout: statementTimeoutMs,
      ...(options.lockTimeoutMs !== undefined && { lock_timeout: options.lockTimeoutMs }),
      idle_in_transaction_session_timeout: 60_000,
      ...options.settings,
    },
  })
}

/**
 * A pool of one connection with the settings of another pool. Its work never waits for a connection of the other pool.
 *
 * @param settings additional PostgreSQL settings of its session
 */
export function oneConnection({ options }: Database, settings: Record<string, string> = {}): Database {
  const connection = { ...options.connection, ...settings }
  return postgres({
    ...options,
    max: 1,
    answer_timeout: answerTimeout(Number(connection.statement_timeout)),
    connection,
  } as unknown as postgres.Options<{
    bigint: postgres.PostgresType<bigint>
  }>)
}

const looking = new WeakSet<Database>()

/**
 * Ends the connections that wait for an answer and whose sessions PostgreSQL does not know. A leader that froze, or whose
 * network was cut, keeps its connections open after a standby has replaced it.
 */
async function endLostSessions(sql: Database): Promise<void> {
  if (looking.has(sql)) return
  looking.add(sql)
  const quiet = sql.quietSessions(3)
  const asking = postgres({
    ...sql.options,
    max: 1,
    connect_timeout: 2,
    answer_timeout: 5,
    onquiet: undefined,
  } as never) as Database
  try {
    const answer = await asking<{ own: number; known: number[] }[]>`
      select pg_backend_pid() as own, array(
        select pid from pg_stat_activity where usename = current_user and pid = any(${quiet.map(({ pid }) => pid)})
      ) as known`
    // Behind a connection pooler, sessions have other numbers.
    if (answer[0]!.own !== answer.state.pid) return
    for (const { pid, end } of quiet) if (!answer[0]!.known.includes(pid)) end()
  } catch {
    // No server is available. The connections wait until their time limit.
  } finally {
    looking.delete(sql)
    await asking.end({ timeout: 1 })
  }
}

/** Whether the server has answered none of the pool's connections for longer than a statement may take. */
export function isSilent(sql: Database): boolean {
  return sql.isSilent(sql.options.answer_timeout - answerMarginSeconds + 1)
}
