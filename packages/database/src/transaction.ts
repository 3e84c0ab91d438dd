import type { Database, Sql, Statement, Transaction } from './connect.ts'
import { retry } from '@licensing/process/retry'
import { isFailedBefore, isRetryable } from './problems.ts'

const maxTries = 10

/** The statements of `sendAlong`, by their transaction. */
const sentAlong = new WeakMap<object, Statement[]>()

/**
 * Runs `work` in one transaction: committed when it resolves, rolled back when it rejects. A deadlock or a
 * serialization failure is tried again from the start, so `work` must do nothing that a rollback does not undo. Statements
 * that `work` sends after its end are refused.
 *
 * @throws what `work` throws, or the database's error
 * @example await transaction(sql, async (tx) => { await tx`update …`; await append(tx, event) })
 */
export async function transaction<T>(sql: Database, work: (tx: Transaction) => Promise<T>): Promise<T> {
  return retrying(async () => {
    const tx = await sql.reserve()
    const sent: Statement[] = []
    sentAlong.set(tx, sent)
    // If BEGIN failed with a timeout, the statements after it would run outside of a transaction. As one message (the simple
    // protocol) it is complete when it arrives, so it does not wait for a connection that stalls.
    await sendAlong(tx, tx.unsafe('begin'))
    try {
      const result = await work(tx)
      const { command } = await tx.finish(tx`commit`)
      await Promise.all(sent)
      if (command !== 'COMMIT')
        throw new Error('a statement of this transaction failed, so it was rolled back')
      return result
    } catch (error) {
      await tx.finish(tx`rollback`).catch(() => {})
      if (isFailedBefore(error)) await Promise.all(sent)
      throw error
    } finally {
      // V8 keeps the values of a WeakMap until it collects the whole heap.
      sentAlong.delete(tx)
      tx.release()
    }
  })
}

/**
 * Sends a statement whose answer is not needed together with the next one, or with the commit, so that it takes no round
 * trip of its own. If it fails, the transaction fails with the same error. In a transaction that `transaction` has not begun
 * the statement runs as usual.
 *
 * @throws the database's error, if it runs as usual
 * @example await sendAlong(tx, tx`insert …`)
 */
export async function sendAlong(tx: Sql, statement: Statement): Promise<void> {
  const sent = sentAlong.get(tx)
  if (!sent) return void (await statement)
  sent.push(statement.execute())
  // `transaction` throws it.
  statement.catch(() => {})
}

/**
 * Lets the statements of a transaction take any time. If the server's host dies meanwhile, only TCP's keepalive ends the
 * connection.
 */
export async function withoutTimeLimit(tx: Transaction): Promise<void> {
  tx.waitForever()
  await tx`set local statement_timeout = 0`
}

/**
 * Runs one statement as a transaction, and repeats it after a deadlock or a serialization failure.
 *
 * @throws the database's error
 * @example await retrying(() => sql`insert …`)
 */
export async function retrying<T>(work: () => Promise<T>): Promise<T> {
  const isRetried = (error: unknown, failures: number) => failures < maxTries && isRetryable(error)
  return retry(work, { firstMs: 20, maxMs: 500, jitter: 1, isRetried })
}
