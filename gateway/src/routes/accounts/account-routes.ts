import { AccountSchema } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { minorUnitsNumber } from '../../fields/money.ts'
import { emailAddress, optional, text } from '../../fields/text.ts'
import { timestampText } from '../../fields/time.ts'

const tag = 'Account'

const accountSchema = z
  .strictObject({
    id: id('acct'),
    name: z.string(),
    alert_email: z.string().nullable().describe('E-mail address for alerts, as it was set last.'),
    alert_email_confirmed: z
      .boolean()
      .describe(
        'false: the link in the mail to this address has not been followed. Until then alerts go to the address before it. Also false without an address.',
      ),
    fee_bps: z.int().describe('Transaction fee in basis points of the amount.'),
    fee_fixed_minor: minorUnitsNumber.describe(
      'Fixed part of the transaction fee, in minor units of the sale’s currency.',
    ),
    created_at: timestampText,
  })
  .meta({ id: 'Account' })

const accountJson = renderer(AccountSchema, accountSchema)

const updateAccountBody = z.strictObject({
  name: optional(text(textLimits.name)),
  // Null is different from absent here: it means no alerts.
  alert_email: emailAddress
    .nullish()
    .describe(
      'null: no alerts are mailed. An address gets a mail with a link, and alerts after the link was followed. Setting it again after ten minutes sends another mail.',
    ),
})

export const accountRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/account',
    operationId: 'getAccount',
    tag,
    summary: 'Get the account',
    scopes: ['admin'],
    accountWide: true,
    answer: accountSchema,
    handle: async ({ services, accountId }) => ({
      body: accountJson(await services.catalog.getAccount({ accountId })),
    }),
  }),
  vendorRoute({
    method: 'PATCH',
    path: '/v1/account',
    operationId: 'updateAccount',
    tag,
    summary: 'Update the name or the alert address of the account',
    scopes: ['admin'],
    accountWide: true,
    body: updateAccountBody,
    answer: accountSchema,
    handle: async ({ services, accountId, body }) => {
      // In the RPC an empty address clears it.
      const alertEmail = body.alert_email === null ? '' : body.alert_email
      return {
        body: accountJson(await services.catalog.updateAccount({ accountId, name: body.name, alertEmail })),
      }
    },
  }),
]
