const retryableStates = new Set(['40001', '40P01'])

const connectionProblems = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'ANSWER_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
])

// The server is starting, stopping or full; class 08: errors of the connection; 25006: a standby, during failover.
const outageStates = /^(08...|57P0[1-5]|53300|25006)$/

// 57014 and 55P03: a statement, or its wait for a lock, took too long. 25P03 and 25P04: the server ended a session that was
// idle in a transaction, or whose transaction took too long.
const timeoutStates = new Set(['57014', '55P03', '25P03', '25P04'])

function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Whether the database aborted the transaction in favour of another one, so that it can be repeated. */
export function isRetryable(error: unknown): boolean {
  return retryableStates.has(codeOf(error) ?? '')
}

/** Whether a statement failed only because an earlier statement of the transaction had failed. */
export function isFailedBefore(error: unknown): boolean {
  return codeOf(error) === '25P02'
}

/** Whether a statement waited too long for a lock. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === '55P03'
}

/** Whether the error means that the database is unreachable, does not accept statements, or is too slow at the moment. */
export function isDatabaseUnavailable(error: unknown): boolean {
  return isDatabaseOutage(error) || timeoutStates.has(codeOf(error) ?? '')
}

/** Whether the error means that the database is unreachable or does not accept statements at the moment. */
export function isDatabaseOutage(error: unknown): boolean {
  const code = codeOf(error)
  return code !== undefined && (connectionProblems.has(code) || outageStates.test(code))
}

// Class 22: data exceptions; class 54: limits of the server; 23502 and 23514: a column or a check refuses a value.
const refusedValues = /^(22...|54...|23502|23514)$/

/** Whether the database refuses a value. A repetition fails again. */
export function isValueRefused(error: unknown): boolean {
  return refusedValues.test(codeOf(error) ?? '')
}

/** The name of the constraint that a statement broke, or undefined for another error. */
export function brokenConstraint(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('constraint_name' in error)) return undefined
  return typeof error.constraint_name === 'string' ? error.constraint_name : undefined
}
