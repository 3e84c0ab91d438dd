import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import type { Price, PriceSchema } from '@licensing/proto/billing'
import { closedSets, isMember, readMember } from '@licensing/proto/closed-sets'
import { checkReference } from '../check-reference.ts'
import type { PriceRow } from './price-queries.ts'

const mostMinor = BigInt(Number.MAX_SAFE_INTEGER)
const currencies = new Set(Intl.supportedValuesOf('currency').map((code) => code.toLowerCase()))

/** What would corrupt money is refused here too, for every caller. What the processor reports is taken as it is. */
export function checkMoney(amount: bigint, currency: string): void {
  if (amount < 0n || amount > mostMinor)
    throw invalid('/amount', 'must be a whole number of minor units, at least 0')
  if (!currencies.has(currency)) {
    throw invalid('/currency', 'must be the ISO 4217 code of a current currency, in lower case, such as eur')
  }
}

export function toPriceRow(price: Price): PriceRow {
  checkMoney(price.amount, price.currency)
  checkReference('/price_id', price.priceId)
  const { mode } = price
  if (!isMember('priceMode', mode)) {
    throw invalid('/mode', `must be ${closedSets.priceMode.join(' or ')}`)
  }
  if (price.periodMonths !== undefined && price.periodMonths < 1) {
    throw invalid('/period_months', 'must be at least 1')
  }
  return {
    plan_id: price.planId,
    price_id: price.priceId,
    amount: price.amount,
    currency: price.currency,
    mode,
    period_months: price.periodMonths ?? null,
  }
}

export function priceMessage(row: PriceRow): MessageInitShape<typeof PriceSchema> {
  return {
    planId: row.plan_id,
    priceId: row.price_id,
    amount: row.amount,
    currency: row.currency,
    mode: readMember('priceMode', row.mode),
    ...(row.period_months !== null && { periodMonths: row.period_months }),
  }
}
