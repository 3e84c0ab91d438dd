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
