import type { EndpointQueue } from './endpoint-queue.ts'

/** Endpoints that wait for their turn. Accounts take turns, and so do the endpoints of each account. */
export class RoundRobin {
  readonly #accounts = new Map<string, Set<EndpointQueue>>()

  get isEmpty(): boolean {
    return this.#accounts.size === 0
  }

  /** Adds an endpoint after the other endpoints of its account, unless it already waits. */
  add(endpoint: EndpointQueue): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting) waiting.add(endpoint)
    else this.#accounts.set(accountId, new Set([endpoint]))
  }

  delete(endpoint: EndpointQueue): void {
    const { accountId } = endpoint.settings
    const waiting = this.#accounts.get(accountId)
    if (waiting?.delete(endpoint) && waiting.size === 0) this.#accounts.delete(accountId)
  }

  /** Removes and returns the next endpoint. */
  take(): EndpointQueue | undefined {
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
