import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { BillingDependencies } from '../dependencies.ts'
import { listOwners, take, takeAgain } from './queue-queries.ts'
import type { Queue } from './queue-queries.ts'

/**
 * Shares what a round takes out among those that wait: each gets the same part, and the next round begins after the
 * last one, so that nobody's backlog delays the others'.
 */
export class ShareOut {
  readonly #perRound: number
  readonly #mostOwners: number
  #after = ''

  constructor(perRound: number, mostOwners: number) {
    this.#perRound = perRound
    this.#mostOwners = mostOwners
  }

  /**
   * @param list owners that wait, in order, from the one after `after`, at most so many
   * @param mostNow fewer owners than usual, where fewer can be served at the moment
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
 * Takes a batch and works on it in one transaction; where that fails, on each row by itself, so that one that fails stops
 * no other.
 *
 * @param failed what becomes of a row that fails by itself
 * @returns a round; it answers how many rows it took
 */
export function batchRounds<Row extends object>(
  { sql, outbox, log }: BillingDependencies,
  queue: Queue<Row>,
  perRound: number,
  work: (tx: Transaction, rows: Row[]) => Promise<void>,
  failed: (row: Row, error: unknown) => Promise<void>,
): () => Promise<number> {
  const share = new ShareOut(perRound, 100)
  return async () => {
    const { owners, each } = await share.next((after, most) => listOwners(sql, queue, after, most))
    if (owners.length === 0) return 0
    let taken: Row[] = []
    try {
      await outbox.transaction(async (tx) => {
        taken = await take(tx, queue, owners, each)
        if (taken.length > 0) await work(tx, taken)
      })
    } catch (error) {
      if (isDatabaseUnavailable(error) || taken.length === 0) throw error
      log.warn({ err: error, of: queue.table, rows: taken.length }, 'batch failed: one by one')
      for (const row of taken) await alone(row)
    }
    return taken.length
  }

  async function alone(row: Row): Promise<void> {
    try {
      await outbox.transaction(async (tx) => {
        const again = await takeAgain(tx, queue, row)
        if (again.length > 0) await work(tx, again)
      })
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error
      await failed(row, error)
    }
  }
}
