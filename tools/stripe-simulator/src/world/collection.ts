/** The owner of an object: a connected account, or null for the platform. */
export type Owner = string | null

export type Stored<T> = { account: Owner; object: T }

/** The objects of one kind, each visible only to the account that owns it. */
export class Collection<T extends { id: string; created: number }> {
  readonly #byOwner = new Map<string, Stored<T>>()
  readonly #byId = new Map<string, Stored<T>>()

  add(account: Owner, object: T): T {
    const stored = { account, object }
    this.#byOwner.set(key(account, object.id), stored)
    this.#byId.set(object.id, stored)
    return object
  }

  find(account: Owner, id: string): T | undefined {
    return this.#byOwner.get(key(account, id))?.object
  }

  /** Finds an object of any account, for the control API. */
  findAnywhere(id: string): Stored<T> | undefined {
    return this.#byId.get(id)
  }

  /** The objects, newest first, as Stripe lists them. In the same second, the last added comes first. */
  list(account: Owner, matches: (object: T) => boolean): T[] {
    const found = this.dump().filter((stored) => stored.account === account && matches(stored.object))
    return newestFirst(found).map((stored) => stored.object)
  }

  everything(): Stored<T>[] {
    return newestFirst(this.dump())
  }

  forget(account: Owner, id: string): void {
    this.#byOwner.delete(key(account, id))
    this.#byId.delete(id)
  }

  get size(): number {
    return this.#byOwner.size
  }

  oldest(): Stored<T> | undefined {
    return this.#byOwner.values().next().value
  }

  dump(): Stored<T>[] {
    return [...this.#byOwner.values()]
  }

  restore(stored: Stored<T>[]): void {
    this.#byOwner.clear()
    this.#byId.clear()
    for (const { account, object } of stored) this.add(account, object)
  }
}

function newestFirst<T extends { created: number }>(stored: Stored<T>[]): Stored<T>[] {
  return stored.toReversed().toSorted((a, b) => b.object.created - a.object.created)
}

function key(account: Owner, id: string): string {
  return `${account ?? ''}/${id}`
}
