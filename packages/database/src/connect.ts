import postgres from 'postgres'

/** The pool or a transaction: the first argument of each query function. */
export type Sql = postgres.ISql<{ bigint: bigint }>

/** The pool itself. */
export type Database = postgres.Sql<{ bigint: bigint }>

/** A running transaction, with a connection of the pool that only it uses. */
export type Transaction = Sql & Pick<postgres.ReservedSql, 'finish' | 'release'>

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

/**
 * Opens a pool. It connects lazily and reconnects by itself; int8 is read as bigint, timestamptz as Date.
 *
 * @param url postgres://user:password@host:port/database
 */
export function connect(url: string, options: ConnectOptions): Database {
  return postgres(url, {
    max: options.max ?? 10,
    connect_timeout: 5,
    max_lifetime: 30 * 60,
    keep_alive: 30,
    backoff: (retries) => Math.min(0.05 * 2 ** Math.min(retries, 3), 0.25),
    onnotice: () => {},
    types: { bigint: postgres.BigInt },
    connection: {
      application_name: options.name,
      statement_timeout: options.statementTimeoutMs ?? 30_000,
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
  return postgres({
    ...options,
    max: 1,
    connection: { ...options.connection, ...settings },
  } as unknown as postgres.Options<{
    bigint: postgres.PostgresType<bigint>
  }>)
}
