import type { EndpointState } from './endpoint-state.ts'

/** Endpoints that wait for their turn: accounts in turn, and of each account its endpoints in turn. */
export class Turns {
  readonly #accounts = new Map<string, Set<EndpointState>>()

  get isEmpty(): boolean {
    return this.#accounts.size === 0
  }

  /** At the end of its account's; does nothing where it waits already. */
  add(endpoint: EndpointState): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting) waiting.add(endpoint)
    else this.#accounts.set(accountId, new Set([endpoint]))
  }

  delete(endpoint: EndpointState): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting?.delete(endpoint) && waiting.size === 0) this.#accounts.delete(accountId)
  }

  /** The next, which waits no longer. */
  take(): EndpointState | undefined {
    for (const [accountId, waiting] of this.#accounts) {
      const [endpoint] = waiting
      waiting.delete(endpoint!)
      this.#accounts.delete(accountId)
      if (waiting.size > 0) this.#accounts.set(accountId, waiting)
      return endpoint
    }
    return undefined
  }
}
