import { waitingForLocks } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { BillingDependencies } from '../dependencies.ts'
import { listOwners, lockDue, lockDueAgain } from './queue-queries.ts'
import type { Queue } from './queue-queries.ts'

/**
 * Gives the owners of waiting rows equal shares of a round. The next round starts after the last owner of this one, so that
 * a long backlog of one owner does not delay the others.
 */
export class Shares {
  readonly #perRound: number
  readonly #mostOwners: number
  #after = ''

  constructor(perRound: number, mostOwners: number) {
    this.#perRound = perRound
    this.#mostOwners = mostOwners
  }

  /**
   * @param list lists at most `most` owners of waiting rows by name, from the first after `after`
   * @param mostNow a lower limit of owners for this round
   */
  async next(
    list: (after: string, most: number) => Promise<string[]>,
    mostNow = this.#mostOwners,
  ): Promise<{ owners: string[]; each: number }> {
    const most = Math.min(mostNow, this.#mostOwners)
    const later = await list(this.#after, most)
    const left = most - later.length
    const first = left > 0 && this.#after !== '' ? await list('', left) : []
    const owners = [...new Set([...later, ...first])]
    this.#after = owners.length < most ? '' : owners.at(-1)!
    return { owners, each: Math.ceil(this.#perRound / Math.max(1, owners.length)) }
  }
}

/**
 * Processes a batch of due rows in one transaction. If that fails, it processes each row in a transaction of its own, so
 * that a row that fails does not stop the others.
 *
 * @param failed called for a row that fails alone
 * @returns a round, which returns how many rows it took
 */
export function batchRounds<Row extends object>(
  { sql, change, log }: BillingDependencies,
  queue: Queue<Row>,
  perRound: number,
  work: (tx: Transaction, rows: Row[]) => Promise<void>,
  failed: (row: Row, error: unknown) => Promise<void>,
): () => Promise<number> {
  const shares = new Shares(perRound, 100)
  return async () => {
    const { owners, each } = await shares.next((after, most) => listOwners(sql, queue, after, most))
    if (owners.length === 0) return 0
    let taken: Row[] = []
    try {
      await change(async (tx) => {
        taken = await lockDue(tx, queue, owners, each)
        if (taken.length > 0) await work(tx, taken)
      }, waitingForLocks)
    } catch (error) {
      if (isDatabaseUnavailable(error) || taken.length === 0) throw error
      log.warn({ err: error, of: queue.table, rows: taken.length }, 'batch failed: one by one')
      for (const row of taken) await alone(row)
    }
    return taken.length
  }

  async function alone(row: Row): Promise<void> {
    try {
      await change(async (tx) => {
        const again = await lockDueAgain(tx, queue, row)
        if (again.length > 0) await work(tx, again)
      }, waitingForLocks)
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error
      await failed(row, error)
    }
  }
}
