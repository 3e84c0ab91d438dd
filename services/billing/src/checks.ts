import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { invalid } from '@licensing/grpc/errors'
import { currentMs } from '@licensing/process/clock'

const maxMinor = BigInt(Number.MAX_SAFE_INTEGER)
const currencies = new Set(Intl.supportedValuesOf('currency').map((code) => code.toLowerCase()))

/**
 * Checks amounts of vendors. Amounts that the processor reports are stored as they are.
 *
 * @throws ServiceError `validation_failed`
 */
export function checkMoney(amount: bigint, currency: string): void {
  if (amount < 0n || amount > maxMinor)
    throw invalid('/amount', 'must be a whole number of minor units, at least 0')
  if (!currencies.has(currency)) {
    throw invalid('/currency', 'must be the ISO 4217 code of a current currency, in lower case, such as eur')
  }
}

/** How far in the future a time of another shop may be: clocks differ, and shops get time zones wrong. */
const maxAheadMs = 24 * 60 * 60 * 1000

/** @throws ServiceError `validation_failed` */
export function checkOccurredAt(time: Timestamp | undefined): Date {
  if (!time) throw invalid('/occurred_at', 'is required')
  const at = timestampDate(time)
  if (at.getTime() <= currentMs() + maxAheadMs) return at
  throw invalid('/occurred_at', 'must not be more than 24 hours in the future')
}
