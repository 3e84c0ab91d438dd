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
  return retrying(() => sql.begin(work) as Promise<T>)
}

/**
 * Runs one statement that is its own transaction, and again where the database gave it up for the sake of another.
 *
 * @throws the database's error
 * @example await retrying(() => sql`insert …`)
 */
export async function retrying<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work()
    } catch (error) {
      if (tries >= mostTries || !isRetryable(error)) throw error
      await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(10 * 2 ** tries, 500)))
    }
  }
}
