import { longLockTimeout } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { BillingDependencies } from '../dependencies.ts'
import { listOwners, lockDue } from './queue-queries.ts'
import type { Queue } from './queue-queries.ts'

/**
 * Gives the owners of waiting rows equal shares of a round. The next round starts after the last owner of this one, so that
 * a long backlog of one owner does not delay the others.
 */
export class Shares {
  readonly #perRound: number
  readonly #maxOwners: number
  #after = ''

  constructor(perRound: number, maxOwners: number) {
    this.#perRound = perRound
    this.#maxOwners = maxOwners
  }

  /**
   * @param list lists at most `limit` owners of waiting rows by name, from the first after `after`
   * @param maxOwners a lower limit of owners for this round
   */
  async next(
    list: (after: string, limit: number) => Promise<string[]>,
    maxOwners = this.#maxOwners,
  ): Promise<{ owners: string[]; each: number }> {
    const limit = Math.min(maxOwners, this.#maxOwners)
    const later = await list(this.#after, limit)
    const left = limit - later.length
    const first = left > 0 && this.#after !== '' ? await list('', left) : []
    const owners = [...new Set([...later, ...first])]
    this.#after = owners.length < limit ? '' : owners.at(-1)!
    return { owners, each: Math.ceil(this.#perRound / Math.max(1, owners.length)) }
  }
}

/**
 * Processes a batch of due rows in one transaction. If that fails, it processes as many rows of the same owners, each in a
 * transaction of its own, so that a row that fails does not stop the others.
 *
 * @param failed called for a row that fails alone; it makes the row due later
 * @returns a round, which returns how many rows it took
 */
export function createBatchRound<Row extends object>(
  { sql, change, log }: BillingDependencies,
  queue: Queue<Row>,
  perRound: number,
  work: (tx: Transaction, rows: Row[]) => Promise<void>,
  failed: (row: Row, error: unknown) => Promise<void>,
): () => Promise<number> {
  const shares = new Shares(perRound, 100)
  return async () => {
    const { owners, each } = await shares.next((after, limit) => listOwners(sql, queue, after, limit))
    if (owners.length === 0) return 0
    return processBatch(owners, each, async (rows, error) => {
      log.warn(
        { err: error, of: queue.table, rows: rows.length },
        'batch failed: its rows are processed one by one',
      )
      for (const row of rows)
        await processBatch([String(row[queue.owner])], 1, ([row], error) => failed(row!, error))
    })
  }

  async function processBatch(
    owners: string[],
    each: number,
    failed: (rows: Row[], error: unknown) => Promise<void>,
  ): Promise<number> {
    let rows: Row[] = []
    try {
      await change(async (tx) => {
        rows = await lockDue(tx, queue, owners, each)
        if (rows.length > 0) await work(tx, rows)
      }, longLockTimeout)
    } catch (error) {
      if (isDatabaseUnavailable(error) || rows.length === 0) throw error
      await failed(rows, error)
    }
    return rows.length
  }
}
