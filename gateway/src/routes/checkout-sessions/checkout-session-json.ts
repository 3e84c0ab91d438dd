import type { CheckoutSession } from '@licensing/proto/billing'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id, reference } from '../../fields/id.ts'
import { currencyText, minorUnitsNumber } from '../../fields/money.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'
import { webAddress } from '../../fields/web-address.ts'
import { externalRef } from '../licences/licence-inputs.ts'

export const checkoutSessionSchema = z
  .strictObject({
    id: id('cs'),
    url: z.string().describe('Where to send the customer to pay.'),
    status: z.enum(closedSets.checkoutStatus),
    plan_id: id('pln'),
    external_ref: z.string(),
    amount: minorUnitsNumber,
    currency: currencyText,
    fee_minor: minorUnitsNumber.describe('The service’s transaction fee.'),
    created_at: timestampText,
    licence_id: id('lic').nullable(),
    reason: z.string().nullable().describe('Error code: why no licence could be issued; null otherwise.'),
  })
  .meta({ id: 'CheckoutSession' })

export const createCheckoutSessionBody = z.strictObject({
  plan_id: reference('pln', 'plan'),
  external_ref: externalRef,
  success_url: webAddress.describe('Where the customer goes after paying.'),
  cancel_url: webAddress.describe('Where the customer goes if the payment is cancelled.'),
})

export function checkoutSessionJson(session: CheckoutSession): z.output<typeof checkoutSessionSchema> {
  return {
    id: session.id,
    url: session.url,
    status: readMember('checkoutStatus', session.status),
    plan_id: session.planId,
    external_ref: session.externalRef,
    amount: Number(session.amount),
    currency: session.currency,
    fee_minor: Number(session.feeMinor),
    created_at: isoText(session.createdAt),
    licence_id: session.licenceId ?? null,
    reason: session.failureReason ?? null,
  }
}
