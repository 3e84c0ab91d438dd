import type { Sql } from './connect.ts'

/** The longest wait for one lock, until the transaction ends. */
export async function setLockTimeout(tx: Sql, lockTimeoutMs: number): Promise<void> {
  await tx`select set_config('lock_timeout', ${String(lockTimeoutMs)}, true)`
}
