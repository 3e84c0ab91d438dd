import type { Account } from '@licensing/proto/catalog'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { minorUnitsNumber } from '../../fields/money.ts'
import { optional } from '../../fields/optional.ts'
import { text } from '../../fields/text.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'

const longestAddress = 254
const email = z
  .email({ pattern: z.regexes.html5Email, error: 'must be an e-mail address' })
  .max(longestAddress, `must have at most ${longestAddress} characters`)

export const accountSchema = z
  .strictObject({
    id: id('acct'),
    name: z.string(),
    alert_email: z.string().nullable().describe('Where alerts go, such as that an endpoint was disabled.'),
    fee_bps: z.int().describe('Transaction fee: basis points of the amount.'),
    fee_fixed_minor: minorUnitsNumber.describe('Fixed part of it, minor units of the sale’s currency.'),
    created_at: timestampText,
  })
  .meta({ id: 'Account' })

export const updateAccountBody = z.strictObject({
  name: optional(text(1, 200)),
  // Here null says something: no alerts.
  alert_email: email.nullish().describe('null: alerts go nowhere.'),
})

export function accountJson(account: Account): z.output<typeof accountSchema> {
  return {
    id: account.id,
    name: account.name,
    alert_email: account.alertEmail || null,
    fee_bps: account.feeBps,
    fee_fixed_minor: Number(account.feeFixedMinor),
    created_at: isoText(account.createdAt),
  }
}
