/**
 * Where an installation keeps what it knows between starts: one text, replaced whole. Its content is described in
 * `vectors/README.md`; a store only keeps it. All functions may throw or reject: the client then goes on in memory, and
 * says so in `state.problem`.
 *
 * Before each save the client reads the store and takes over what is newer there: a revocation list, a key set, a token.
 * If several processes can share the store, it needs `update`: without it, a process can replace what another wrote
 * between the client's `read` and `write`.
 */
export interface LicenceStore {
  /** The text last written, or null if there is none. */
  read(): string | null | Promise<string | null>
  /** Replaces the text; should be atomic. */
  write(text: string): void | Promise<void>
  /**
   * Replaces the text by `change(text)`, and nobody else's write comes in between: under an exclusive lock, or by
   * comparing and swapping, with `change` called again for the new text after each failure. A lock must end with the
   * process that holds it.
   */
  update?(change: (text: string | null) => Promise<string>): Promise<void>
}

/**
 * A store that forgets with the process: the default.
 *
 * @param text what it holds at first
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
 * A store in `localStorage`, or anything of its shape. Tabs that share it take turns by the Web Locks API; where a runtime
 * has none, two tabs that save in the same moment can replace each other's record.
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

interface SynchronousStore {
  read(): string | null
  write(text: string): void
}

/** Nothing of this process comes between a `read` and a `write` that are not awaited. */
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
