/**
 * Keeps the knowledge of an installation between starts: one text, which is replaced as a whole. All functions may throw or
 * reject: the client then continues in memory, and `state.problem` says so.
 *
 * Before each save the client reads the store and uses what is newer there: a revocation list, a key set, a token. A store
 * that several processes share needs `update`: without it, a process can overwrite what another one wrote between `read`
 * and `write`.
 */
export interface LicenceStore {
  /** The text last written, or null if there is none. */
  read(): string | null | Promise<string | null>
  /** Replaces the text; should be atomic. */
  write(text: string): void | Promise<void>
  /**
   * Replaces the text by `change(text)` atomically: under an exclusive lock, or by compare-and-swap, with another call of
   * `change` for the new text after each failure. A lock must end with the process that holds it.
   */
  update?(change: (text: string | null) => Promise<string>): Promise<void>
}

/**
 * A store in memory, which ends with the process: the default.
 *
 * @param text its first content
 * @example const store = memoryStore()
 */
export function memoryStore(text: string | null = null): LicenceStore {
  let held = text
  const read = () => held
  const write = (next: string) => {
    held = next
  }
  return { read, write, update: (change) => compareAndSwap({ read, write }, change) }
}

/**
 * A store in `localStorage`, or an object like it. Tabs take turns through the Web Locks API. In a runtime without that
 * API, two tabs that save at the same moment can overwrite each other's record.
 *
 * @param storage usually `localStorage`
 * @param name the item's name; give each application its own
 * @example const store = webStorageStore(localStorage, 'acme-licence')
 */
export function webStorageStore(
  storage: Pick<Storage, 'getItem' | 'setItem'>,
  name = 'licence',
): LicenceStore {
  const read = () => storage.getItem(name)
  const write = (text: string) => storage.setItem(name, text)
  return {
    read,
    write,
    async update(change) {
      const swap = () => compareAndSwap({ read, write }, change)
      const locks = (globalThis as { navigator?: Partial<Navigator> }).navigator?.locks
      await (locks ? locks.request(`licence ${name}`, swap) : swap())
    },
  }
}

const MAX_TRIES = 3

/**
 * Updates a store that has no `update`: reads, changes, writes, and reads again to check. Another process can still overwrite
 * it after the last check.
 */
export async function replace(
  store: LicenceStore,
  change: (text: string | null) => Promise<string>,
): Promise<void> {
  let found = await store.read()
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const text = await change(found)
    await store.write(text)
    found = await store.read()
    if (found === text) return
  }
  throw new Error('another process keeps replacing the content of the store')
}

interface SynchronousStore {
  read(): string | null
  write(text: string): void
}

/** No other code of this process runs between a `read` and a `write` that are not awaited. */
async function compareAndSwap(
  { read, write }: SynchronousStore,
  change: (text: string | null) => Promise<string>,
): Promise<void> {
  for (;;) {
    const before = read()
    const after = await change(before)
    if (read() !== before) continue
    write(after)
    return
  }
}
