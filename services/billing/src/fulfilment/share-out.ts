import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { BillingDependencies } from '../dependencies.ts'
import { listOwners } from './waiting-queries.ts'
import type { Queue } from './waiting-queries.ts'

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

/** Work that is done in one transaction with taking it. */
export interface BatchWork<Item> {
  queue: Queue
  perRound: number
  claim: (tx: Transaction, owners: string[], each: number) => Promise<Item[]>
  /** Takes one of them again; none where it has been worked on since. */
  claimAgain: (tx: Transaction, item: Item) => Promise<Item[]>
  work: (tx: Transaction, items: Item[]) => Promise<void>
  /** What becomes of one that fails by itself. */
  failed: (item: Item, error: unknown) => Promise<void>
}

/**
 * Works on a batch in one transaction; where that fails, on each by itself, so that one that fails stops no other.
 *
 * @returns a round; it answers how many it took
 */
export function batchRounds<Item>(
  { sql, outbox, log }: BillingDependencies,
  { queue, perRound, claim, claimAgain, work, failed }: BatchWork<Item>,
): () => Promise<number> {
  const share = new ShareOut(perRound, 100)
  return async () => {
    const { owners, each } = await share.next((after, most) => listOwners(sql, queue, after, most))
    if (owners.length === 0) return 0
    let taken: Item[] = []
    try {
      await outbox.transaction(async (tx) => {
        taken = await claim(tx, owners, each)
        if (taken.length > 0) await work(tx, taken)
      })
    } catch (error) {
      if (isDatabaseUnavailable(error) || taken.length === 0) throw error
      log.warn({ err: error, of: queue.table, rows: taken.length }, 'batch failed: one by one')
      for (const item of taken) await alone(item)
    }
    return taken.length
  }

  async function alone(item: Item): Promise<void> {
    try {
      await outbox.transaction(async (tx) => {
        const again = await claimAgain(tx, item)
        if (again.length > 0) await work(tx, again)
      })
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error
      await failed(item, error)
    }
  }
}
