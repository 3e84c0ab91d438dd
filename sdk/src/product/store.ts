/**
 * Where an installation keeps what it knows between starts: one text, read once and replaced whole. Its content is
 * described in `vectors/README.md`; a store only keeps it. Both functions may throw or reject: the client then goes
 * on in memory, and says so in `state.problem`.
 *
 * One store belongs to one running client. Where several share one, the last to write wins, which costs no more than
 * a repeated request.
 */
export interface LicenceStore {
  /** The text last written, or null when there is none. */
  read(): string | null | Promise<string | null>
  /** Replaces the text; should be atomic. */
  write(text: string): void | Promise<void>
}

/**
 * A store that forgets with the process: the default.
 *
 * @param text what it holds at first
 * @example const store = memoryStore()
 */
export function memoryStore(text: string | null = null): LicenceStore {
  let held = text
  return {
    read: () => held,
    write: (next) => {
      held = next
    },
  }
}

/**
 * A store in `localStorage`, or anything of its shape.
 *
 * @param storage usually `localStorage`
 * @param name the item's name; give each application its own
 * @example const store = webStorageStore(localStorage, 'acme-licence')
 */
export function webStorageStore(
  storage: Pick<Storage, 'getItem' | 'setItem'>,
  name = 'licence',
): LicenceStore {
  return {
    read: () => storage.getItem(name),
    write: (text) => storage.setItem(name, text),
  }
}
