import { describe, expect, it } from 'vitest'
import { LicenceClient } from './client.ts'
import { memoryStore, webStorageStore, type LicenceStore } from './store.ts'

/** `localStorage` of one page or of several. */
function givenStorage() {
  const items = new Map<string, string>()
  return {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, text: string) => void items.set(name, text),
  }
}

/** Adds a line after a pause. */
const adding = (line: number) => async (text: string | null) => {
  await new Promise((resolve) => setTimeout(resolve, line % 3))
  return `${text ?? ''}${line}\n`
}

describe('a store', () => {
  const storage = givenStorage()
  it.each<[string, () => LicenceStore]>([
    ['memory', () => memory],
    ['web storage', () => webStorageStore(storage)],
  ])('in %s loses no update if several run at the same time', async (_name, open) => {
    const lines = Array.from({ length: 30 }, (_, line) => line)
    await Promise.all(lines.map(async (line) => open().update?.(adding(line))))
    const text = await open().read()
    const found = text?.trim().split('\n').map(Number) ?? []
    expect(found.toSorted((one, other) => one - other)).toEqual(lines)
  })
  const memory = memoryStore()

  it('in web storage takes turns with other tabs through a lock with its name', async () => {
    const held: string[] = []
    const locks = {
      request: async (name: string, work: () => Promise<void>) => {
        held.push(`${name} begins`)
        await work()
        held.push(`${name} ends`)
      },
    }
    const real = Object.getOwnPropertyDescriptor(globalThis, 'navigator')
    Object.defineProperty(globalThis, 'navigator', { value: { locks }, configurable: true })
    try {
      await webStorageStore(givenStorage(), 'acme').update?.(() => Promise.resolve('text'))
    } finally {
      if (real) Object.defineProperty(globalThis, 'navigator', real)
    }
    expect(held).toEqual(['licence acme begins', 'licence acme ends'])
  })

  it('of the product’s own that has no `update` is read before each save, and again after it', async () => {
    const calls: string[] = []
    let held: string | null = null
    const store: LicenceStore = {
      read: () => {
        calls.push('read')
        return held
      },
      write: (text) => {
        calls.push('write')
        // Another process replaces the first save.
        held = calls.filter((call) => call === 'write').length === 1 ? '{}' : text
      },
    }
    const client = new LicenceClient({
      baseUrl: 'http://127.0.0.1:9',
      appId: 'app_1',
      rootKey: 'unpinned',
      fingerprint: 'machine-1',
      host: 'localhost',
      productVersion: '1',
      store,
      background: false,
    })
    await expect(client.ready()).resolves.toMatchObject({ problem: null })
    expect(calls).toEqual(['read', 'read', 'write', 'read', 'write', 'read'])
  })
})
