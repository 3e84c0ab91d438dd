import type { Database, Transaction } from './connect.ts'
import { isRetryable } from './problems.ts'

const mostTries = 10

/**
 * Runs `work` in one transaction: committed when it resolves, rolled back when it rejects. A deadlock or a
 * serialization failure is tried again from the start, so `work` must do nothing that a rollback does not undo.
 *
 * @throws what `work` throws, or the database's error
 * @example await transaction(sql, async (tx) => { await tx`update …`; await append(tx, event) })
 */
export async function transaction<T>(sql: Database, work: (tx: Transaction) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return (await sql.begin(work)) as T
    } catch (error) {
      if (tries >= mostTries || !isRetryable(error)) throw error
      await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(10 * 2 ** tries, 500)))
    }
  }
}
