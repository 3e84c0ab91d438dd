import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { LicenceClientOptions } from '../src/product/client.ts'
import type { LicenceStore } from '../src/product/store.ts'

/** A command that a test sends to the process. */
export type Order =
  | { readonly fingerprint: { readonly appId: string; readonly file: string } }
  /** Adds a line to the text of a file store. */
  | { readonly add: { readonly file: string; readonly line: string } }
  | { readonly open: { readonly file: string; readonly options: Omit<LicenceClientOptions, 'store'> } }
  | { readonly call: 'activate' | 'ready' | 'check' | 'refresh' | 'deactivate' }
  /** The next save stops between what it read and what it writes. */
  | { readonly hold: true }
  | { readonly release: true }
  /** The process ends by SIGKILL when it calls this function of the file system. */
  | { readonly dieIn: 'writeFile' | 'link' | 'readFile' | 'rename' | 'rm' }

const { fileStore, machineFingerprint } = await import('../src/node.ts')
const { LicenceClient } = await import('../src/product/client.ts')

let client: InstanceType<typeof LicenceClient> | undefined
let gate: { readonly opened: Promise<void>; readonly open: () => void } | undefined

async function obey(order: Order): Promise<unknown> {
  if ('fingerprint' in order) return machineFingerprint(order.fingerprint)
  if ('add' in order) {
    const { file, line } = order.add
    return fileStore(file).update((text) => Promise.resolve(`${text ?? ''}${line}\n`))
  }
  if ('open' in order) {
    const store = gated(fileStore(order.open.file))
    client = new LicenceClient({ ...order.open.options, store })
    return undefined
  }
  if ('hold' in order) {
    const { promise, resolve } = Promise.withResolvers<void>()
    gate = { opened: promise, open: resolve }
    return undefined
  }
  if ('release' in order) return gate?.open()
  if ('dieIn' in order) return dieIn(order.dieIn)
  return client?.[order.call]()
}

function gated(store: ReturnType<typeof fileStore>): LicenceStore {
  const update = (change: (text: string | null) => Promise<string>) =>
    store.update(async (text) => {
      const next = await change(text)
      if (gate) {
        const { opened } = gate
        process.send?.({ held: true })
        await opened
        gate = undefined
      }
      return next
    })
  return { ...store, update }
}

function dieIn(name: Extract<Order, { dieIn: unknown }>['dieIn']): void {
  fs.promises[name] = (() => {
    process.kill(process.pid, 'SIGKILL')
    return new Promise(() => {})
  }) as never
  syncBuiltinESMExports()
}

process.on('message', ({ id, order }: { id: number; order: Order }) => {
  obey(order).then(
    (answer) => process.send?.({ id, answer: answer ?? null }),
    (error: unknown) => process.send?.({ id, error: String(error) }),
  )
})
process.send?.({ started: true })
