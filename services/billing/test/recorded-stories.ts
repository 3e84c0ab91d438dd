import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ReportSaleFactRequestSchema } from '@licensing/proto/billing'
import { eventually } from '@licensing/test-support/poll'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import type { Harness } from './harness.ts'
import { recordSale, scope } from './shop.ts'
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

type Report = MessageInitShape<typeof ReportSaleFactRequestSchema>

/**
 * The reports of another shop about a purchase of this customer, in the order in which they happened: a sale before the story,
 * two payments that fail, a renewal, and a refund of a part of the first payment. It stands after them.
 */
export function retellShop(
  harness: Pick<Harness, 'billing'>,
  { vendor, externalRef, beginsAt }: { vendor: Vendor; externalRef: string; beginsAt: number },
): (() => Promise<unknown>)[] {
  const day = (days: number) => timestampFromDate(new Date((beginsAt + days * 86_400) * 1000))
  const sale = { saleId: 'txn_1', externalRef, amount: 2500n, occurredAt: day(-40), expiresOn: day(60) }
  const report = (days: number, fact: NonNullable<Report['fact']>) => {
    const bodyHash = createHash('sha256').update(inspect(fact)).digest()
    const request: Report = { ...scope(vendor), saleId: sale.saleId, occurredAt: day(days), bodyHash, fact }
    // The shop repeats a report that was not answered.
    return () =>
      eventually(() => harness.billing.reportSaleFact(create(ReportSaleFactRequestSchema, request)))
  }
  const renewal = { id: 'txn_2', amount: 2500n, currency: 'usd', expiresOn: day(90) }
  return [
    () => eventually(() => recordSale(harness, vendor, sale)),
    report(-14, { case: 'failure', value: { id: 'txn_2-1' } }),
    report(-12, { case: 'failure', value: { id: 'txn_2-2' } }),
    report(-11, { case: 'renewal', value: renewal }),
    report(-5, { case: 'refund', value: { id: 'adj_1', amount: 500n, kind: 'refund' } }),
  ]
}
