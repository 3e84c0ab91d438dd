import { readdirSync, readFileSync } from 'node:fs'
import type { Vendor } from './vendor.ts'

const folder = new URL('../../../tools/stripe-simulator/fixtures/events/', import.meta.url)

/** Replacements that adapt the recorded events of a story to a vendor. */
export interface Retelling {
  vendor: Vendor
  sessionId: string
  /** Is appended to the processor's ids, so that they are new. */
  suffix: string
  /** When the story begins, Unix seconds. */
  beginsAt: number
}

// `a`, the first story, begins here.
const recordedFrom = 1_793_700_000

/** The recorded events of a story, in the order in which they happened. `name` is the letter of its files. */
export function retell(name: string, { vendor, sessionId, suffix, beginsAt }: Retelling): object[] {
  const files = readdirSync(folder)
    .filter((file) => new RegExp(`^${name}[0-9]+-`).test(file))
    .sort()
  return files.map((file) => {
    const text = readFileSync(new URL(file, folder), 'utf8')
      .replaceAll(/"chk_[A-Za-z0-9]+"/g, `"${sessionId}"`)
      .replaceAll(/"acct_[A-Za-z0-9]+"/g, `"${vendor.connectedAccount}"`)
      .replaceAll(/"price_[A-Za-z0-9]+"/g, `"${vendor.priceId}"`)
      .replaceAll(/"((?:evt|cs_test|pi|ch|py|re|pyr|in|sub|du)_[A-Za-z0-9]+)"/g, `"$1${suffix}"`)
      .replaceAll(/\b179[0-9]{7}\b/g, (seconds) => String(Number(seconds) - recordedFrom + beginsAt))
    return JSON.parse(text) as object
  })
}
