import type { FoundCustomerPage } from '@licensing/proto/catalog'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { FoundCustomerSession } from '@licensing/proto/customers'
import { z } from 'zod'
import { isoText, isoTextOrNull, timestampText } from '../../fields/time.ts'
import type { Services } from '../../services.ts'
import { vendorActivationJson, vendorActivationSchema } from '../licences/licence-detail-json.ts'
import { licenceProperties, licenceJson } from '../licences/licence-json.ts'
import { customerPageFields } from './customer-page-json.ts'

export const sessionEnd = timestampText.describe('When the session ends.')

export const appSchema = z.strictObject({ name: z.string(), ...customerPageFields })

export const licenceSchema = z
  .strictObject({
    app: appSchema.describe('The application and the settings of its page.'),
    key: z.string().describe('The licence key.'),
    plan_name: z.string().describe('The name of the plan.'),
    status: licenceProperties.status,
    status_reason: licenceProperties.status_reason,
    expires_on: licenceProperties.expires_on,
    updates_until: licenceProperties.updates_until,
    trial: licenceProperties.trial,
    entitlements: z
      .array(
        z.strictObject({
          key: z.string(),
          display_name: z.string().describe('Display name; the key if the definition was deleted.'),
          kind: z.enum(closedSets.entitlementKind),
          value: z.string(),
        }),
      )
      .describe('The values that the product gets.'),
    activations: z
      .array(vendorActivationSchema.omit({ fingerprint: true }))
      .describe('The newest 100 machines, newest first.'),
    activations_total: z.int().describe('Number of machines.'),
    max_activations: z.int().nullable(),
    max_concurrent: z.int().nullable(),
    leases_in_use: z.int().describe('Number of leases that have not ended.'),
    frees_left: z.int().describe('How many machines can still be removed on this UTC day.'),
    offline_days: z.int().describe('The longest licence file that can be made, in days; 0: none.'),
    subscription: z
      .strictObject({
        renews_on: timestampText.nullable().describe('When it is charged again.'),
        cancels_on: timestampText.nullable().describe('When it ends.'),
      })
      .nullable()
      .describe('The subscription that the licence rests on. One of the times is null.'),
    return_url: z.string().nullable().describe('Where the link “Back” leads.'),
    expires_at: sessionEnd,
  })
  .meta({ id: 'CustomerLicence' })

/** The licence of a session, for calls of other services. */
export function ownLicence({ accountId, licenceId }: FoundCustomerSession) {
  return { accountId, licenceId }
}

export function appJson({ name, page }: FoundCustomerPage): z.output<typeof appSchema> {
  return { name, support_url: page?.supportUrl ?? null, accent_color: page?.accentColor ?? null }
}

/** The licence of the session, as its customer sees it. */
export async function customerLicenceJson(
  services: Services,
  session: FoundCustomerSession,
): Promise<z.output<typeof licenceSchema>> {
  const { accountId, applicationId } = session
  const [found, app] = await Promise.all([
    services.customers.getCustomerLicence(ownLicence(session)),
    services.catalog.findCustomerPage({ applicationId }),
  ])
  const { effective, activations, activationsTotal, leasesInUse } = found.detail!
  const { key, plan_id: planId, restrictions, ...licence } = licenceJson(found.detail!.licence!)
  const [plan, names, { subscription }] = await Promise.all([
    services.catalog.getPlan({ accountId, applicationId, planId }),
    displayNames(services, session),
    found.purchaseRef === undefined
      ? { subscription: undefined }
      : services.billing.getSubscription({ accountId, purchaseRef: found.purchaseRef }),
  ])
  const paidUntil = isoTextOrNull(subscription?.paidUntil)
  return {
    app: appJson(app),
    key,
    plan_name: plan.name,
    status: licence.status,
    status_reason: licence.status_reason,
    expires_on: licence.expires_on,
    updates_until: licence.updates_until,
    trial: licence.trial,
    entitlements: effective.map(({ key, kind, value }) => ({
      key,
      display_name: names.get(key) ?? key,
      kind: readMember('entitlementKind', kind),
      value,
    })),
    activations: activations.map((activation) => {
      const { fingerprint: _, ...shown } = vendorActivationJson(activation)
      return shown
    }),
    activations_total: Number(activationsTotal),
    max_activations: restrictions?.max_activations ?? null,
    max_concurrent: restrictions?.max_concurrent ?? null,
    leases_in_use: Number(leasesInUse),
    frees_left: Math.max(0, (app.page?.freesPerDay ?? 0) - found.freedToday),
    offline_days: app.page?.offlineDays ?? 0,
    subscription: subscription
      ? {
          renews_on: subscription.renews ? paidUntil : null,
          cancels_on: subscription.renews ? null : paidUntil,
        }
      : null,
    return_url: session.returnUrl ?? null,
    expires_at: isoText(session.expiresAt),
  }
}

const definitionsInAPage = 200

/** The display names of all definitions of the application, by key. */
async function displayNames(
  services: Services,
  { accountId, applicationId }: FoundCustomerSession,
): Promise<Map<string, string>> {
  const names = new Map<string, string>()
  for (let beforeId = '', hasMore = true; hasMore;) {
    const page = await services.catalog.listEntitlementDefinitions({
      accountId,
      applicationId,
      limit: definitionsInAPage,
      beforeId,
    })
    for (const { key, displayName } of page.definitions) names.set(key, displayName)
    hasMore = page.hasMore && page.definitions.length > 0
    beforeId = page.definitions.at(-1)?.id ?? ''
  }
  return names
}
