/**
 * The meaning of a database error for the work that failed:
 *
 * - `outage`: the server is unreachable, cannot write, or has no space or memory. The work waits until that is over.
 * - `slow`: a statement, a session or the wait for a lock took too long, or an object was in use. The work waits.
 * - `race`: another transaction had priority. The work can be repeated at once.
 * - `setup`: the schema, the rights or the files do not fit at the moment, for example during an upgrade. The work waits; a
 *   start does not.
 * - `value`: the database refuses a value. A repetition fails again.
 * - `code`: the statement is wrong. A repetition fails again.
 */
export type Problem = 'outage' | 'slow' | 'race' | 'setup' | 'value' | 'code'

/** By SQLSTATE, or by its first two characters. A whole state goes before its class; every other state is `code`. */
export const problemOfState: Readonly<Record<string, Problem>> = {
  '08': 'outage', // connection exception
  '22': 'value', // data exception
  '23502': 'value', // not null
  '23514': 'value', // check
  '25006': 'outage', // a standby, during failover, accepts only reads
  '25P03': 'slow', // the session was idle in a transaction
  '25P04': 'slow', // the transaction took too long
  '26': 'setup', // a prepared statement is missing behind a connection pooler
  '28': 'setup', // login
  '3D': 'setup', // the database does not exist
  '3F': 'setup', // the schema does not exist
  '40': 'race', // transaction rollback
  '42501': 'setup', // rights
  '42703': 'setup', // the column does not exist
  '42704': 'setup', // the object does not exist
  '42883': 'setup', // the function does not exist
  '42P01': 'setup', // the table does not exist
  '42P05': 'setup', // a prepared statement exists behind a connection pooler
  '44': 'value', // check of a view
  '53': 'outage', // no disk space, no memory, no free connection
  '54': 'value', // a value is larger than the server's limits
  '55': 'slow', // an object is in use, or its lock is not available
  '57': 'slow', // operator intervention: 57014 is statement_timeout
  '57P01': 'outage', // the server stops
  '57P02': 'outage', // the server crashed
  '57P03': 'outage', // the server starts
  '57P04': 'outage', // the database was dropped
  '57P05': 'outage', // the session was idle
  '58': 'outage', // a file cannot be read or written
  '72': 'slow', // a snapshot is too old
  F0: 'setup', // configuration file
  LM: 'slow', // the account of the row moves to another cell
  XX: 'setup', // internal error, damaged data
}

/** Errors of the driver, of the network, and of a certificate that has ended or is not valid yet. */
const connectionProblems = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'ANSWER_TIMEOUT',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_FAIL',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
])

/** The certificate of the server is not trusted, or is for another host. */
const certificateProblem = /^(UNABLE_TO_|SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED|CERT_|ERR_TLS_|ERR_SSL_)/

/** Undefined for an error that is not the database's. */
export function problemOf(error: unknown): Problem | undefined {
  const code = codeOf(error)
  if (code === undefined) return undefined
  if (connectionProblems.has(code)) return 'outage'
  if (certificateProblem.test(code)) return 'setup'
  if (!/^[0-9A-Z]{5}$/.test(code)) return undefined
  // "cached plan must not change result type": a migration changed a table of a prepared statement.
  if (code === '0A000' && (error as { routine?: unknown }).routine === 'RevalidateCachedQuery') return 'setup'
  return problemOfState[code] ?? problemOfState[code.slice(0, 2)] ?? 'code'
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Whether the database aborted the transaction in favour of another one, so that it can be repeated. */
export function isRetryable(error: unknown): boolean {
  return problemOf(error) === 'race'
}

/** Whether a statement failed only because an earlier statement of the transaction had failed. */
export function isFailedBefore(error: unknown): boolean {
  return codeOf(error) === '25P02'
}

/** Whether a statement waited too long for a lock. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === '55P03'
}

/**
 * Whether the work waits and is tried again: neither its values nor its statements are at fault. It must not be given up,
 * and nothing that depends on its order may overtake it.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  const problem = problemOf(error)
  return problem !== undefined && problem !== 'value' && problem !== 'code'
}

/** Whether the database is unreachable or cannot execute statements at the moment. Such failures are logged once. */
export function isDatabaseOutage(error: unknown): boolean {
  return problemOf(error) === 'outage'
}

/** Whether an operator has to change something at the database, so that a start does not wait for it. */
export function isSetupProblem(error: unknown): boolean {
  return problemOf(error) === 'setup'
}

/** Whether a row was refused because its account moves to another cell (`packages/moves`). */
export function isMoving(error: unknown): boolean {
  return codeOf(error) === 'LM001'
}

/** Whether the database refuses a value. A repetition fails again. */
export function isValueRefused(error: unknown): boolean {
  return problemOf(error) === 'value'
}

/** The name of the constraint that a statement broke, or undefined for another error. */
export function brokenConstraint(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('constraint_name' in error)) return undefined
  return typeof error.constraint_name === 'string' ? error.constraint_name : undefined
}
