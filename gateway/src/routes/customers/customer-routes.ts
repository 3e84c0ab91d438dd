import { invalid, ServiceError } from '@licensing/grpc/errors'
import { readLicenceKey } from '@licensing/formats/licence-key'
import type { FoundCustomerPage } from '@licensing/proto/catalog'
import type { FoundCustomerSession } from '@licensing/proto/customers'
import { z } from 'zod'
import { httpsAddress, optional } from '../../fields/text.ts'
import { isoText } from '../../fields/time.ts'
import { keylessRoute, vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import type { Services } from '../../services.ts'
import { installationFields, offlineActivationSchema } from '../activations/activation-routes.ts'
import { findLicence, licenceScope } from '../licences/one-licence-routes.ts'
import {
  appJson,
  appSchema,
  customerLicenceJson,
  sessionEnd,
  licenceSchema,
  ownLicence,
} from './customer-licence-json.ts'
import { maxOfflineDays } from './customer-page-json.ts'

const tag = 'Customers'

const minutes = { min: 5, max: 1_440, default: 60 }

const createSessionBody = z.strictObject({
  minutes: optional(
    z
      .int('must be a whole number')
      .min(minutes.min, `must be at least ${minutes.min}`)
      .max(minutes.max, `must be at most ${minutes.max}`),
  ).describe(`How long the link works. Default: ${minutes.default}.`),
  return_url: optional(httpsAddress).describe('The page shows it as the link “Back”.'),
})

const linkSchema = z
  .strictObject({
    url: z
      .string()
      .nullable()
      .describe('The customer’s page, with the session after `#`. Shown once: null in a replay.')
      .meta({ examples: ['https://licensing.example.com/customer#cst_…'] }),
    expires_at: sessionEnd,
  })
  .meta({ id: 'CustomerLink' })

const sessionSchema = z
  .strictObject({ token: z.string().describe('For `Authorization: Bearer`.'), expires_at: sessionEnd })
  .meta({ id: 'CustomerSession' })

const linkRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: '/v1/licences/{licence_id}/customer-sessions',
    operationId: 'createCustomerSession',
    tag,
    summary: 'Create a link to the customer’s page',
    description:
      'Anybody who has the link sees this licence and can remove its machines, in every status, until the session ends.',
    scopes: ['issue'],
    body: createSessionBody,
    bodyOptional: true,
    status: 201,
    answer: linkSchema,
    lookUp: findLicence,
    handle: async (call) => {
      const { token, expiresAt } = await call.services.customers.createCustomerSession({
        ...licenceScope(call),
        minutes: call.body.minutes ?? minutes.default,
        returnUrl: call.body.return_url,
      })
      const url = token === '' ? null : `${call.ownUrl}/customer#${token}`
      return { body: { url, expires_at: isoText(expiresAt) } }
    },
  }),
  vendorRoute({
    method: 'DELETE',
    path: '/v1/licences/{licence_id}/customer-sessions',
    operationId: 'endCustomerSessions',
    tag,
    summary: 'End all sessions of a licence’s customer',
    description: 'Links stop working, and sessions that began with the licence key end.',
    scopes: ['issue'],
    lookUp: findLicence,
    handle: async (call) => {
      await call.services.customers.endCustomerSessions(licenceScope(call))
      return {}
    },
  }),
]

/** @throws ServiceError `not_found` if customers cannot sign in with a key */
async function signInPage({
  services,
  params,
}: {
  services: Services
  params: { readonly app_id: string }
}): Promise<FoundCustomerPage> {
  const found = await services.catalog.findCustomerPage({ applicationId: params.app_id })
  if (found.page?.keySignIn) return found
  throw new ServiceError('not_found', 'customers of this application cannot sign in with a licence key')
}

const signInRoutes: Route[] = [
  keylessRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/customer-page',
    operationId: 'getCustomerPage',
    tag,
    summary: 'Get the look of the page on which customers sign in',
    description: 'Only if customers can sign in with the licence key; else 404.',
    audience: 'product',
    answer: appSchema.meta({ id: 'CustomerSignInPage' }),
    handle: async (call) => ({ body: appJson(await signInPage(call)) }),
  }),
  keylessRoute({
    method: 'POST',
    path: '/v1/apps/{app_id}/customer-sessions',
    operationId: 'signInWithLicenceKey',
    tag,
    summary: 'Sign in with a licence key',
    description:
      'Only if customers can sign in with the licence key; else 404. The session lasts 60 minutes.',
    audience: 'product',
    // Any string is accepted: a text that is no licence key gets 404 like an unknown key.
    body: z.strictObject({ licence_key: z.string().meta({ examples: ['7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB'] }) }),
    status: 201,
    answer: sessionSchema,
    lookUp: signInPage,
    guessableKey: ({ body }) => readLicenceKey(body.licence_key) ?? body.licence_key,
    handle: async (call) => {
      await signInPage(call)
      const { token, expiresAt } = await call.services.customers.signInWithKey({
        applicationId: call.params.app_id,
        licenceKey: call.body.licence_key,
      })
      return { body: { token, expires_at: isoText(expiresAt) } }
    },
  }),
]

const one = '/v1/customer'

const offlineBody = z.strictObject({
  request: z.string().describe('The text that `createOfflineRequest` of the SDK makes on the machine.'),
  days: z.int('must be a whole number').describe('Validity of the file in days.'),
})

const offlineRequest = z.strictObject({
  licence_key: z.string().nullish(),
  ...installationFields,
})

export const customerRoutes: Route[] = [
  ...linkRoutes,
  ...signInRoutes,
  keylessRoute({
    method: 'GET',
    path: `${one}/licence`,
    operationId: 'getCustomerLicence',
    tag,
    summary: 'Get the licence of the session',
    description: 'What the customer sees of it, whatever its status is.',
    audience: 'customer',
    answer: licenceSchema,
    handle: async ({ services, session }) => ({ body: await customerLicenceJson(services, session) }),
  }),
  keylessRoute({
    method: 'DELETE',
    path: `${one}/activations/{activation_id}`,
    operationId: 'removeMachine',
    tag,
    summary: 'Remove a machine',
    description:
      'The product there loses access at its next token refresh. A machine with a licence file can be removed when the file has ended.',
    audience: 'customer',
    errors: ['conflict', 'quota_exceeded'],
    handle: async ({ services, session, params }) => {
      const { page } = await services.catalog.findCustomerPage(session)
      await services.customers.freeCustomerActivation({
        ...ownLicence(session),
        activationId: params.activation_id,
        maxPerDay: page!.freesPerDay,
      })
      return {}
    },
  }),
  keylessRoute({
    method: 'POST',
    path: `${one}/offline-activations`,
    operationId: 'createCustomerLicenceFile',
    tag,
    summary: 'Make a licence file for a machine without a network',
    description: 'Only if the vendor allows licence files; else 404.',
    audience: 'customer',
    body: offlineBody,
    status: 201,
    alsoAnswers: { 200: 'The machine has a licence file already: a new one for the same activation.' },
    answer: offlineActivationSchema,
    errors: ['not_found', 'licence_refused', 'limit_reached', 'quota_exceeded'],
    lookUp: maxDaysOf,
    handle: async ({ services, session, body }) => {
      const maxDays = await maxDaysOf({ services, session })
      if (body.days < 1 || body.days > maxDays) throw invalid('/days', `must be from 1 to ${maxDays}`)
      const machine = readOfflineRequest(body.request)
      const { detail } = await services.customers.getCustomerLicence(ownLicence(session))
      const { key } = detail!.licence!
      const { licence_key: asked, product_version: productVersion, ...installation } = machine
      if (asked && readLicenceKey(asked) !== readLicenceKey(key)) {
        throw invalid('/request', 'is a request for another licence key')
      }
      const { activationId, licenceId, expiresAt, file, created } = await services.products.activateOffline({
        accountId: session.accountId,
        applicationId: session.applicationId,
        ...installation,
        licenceKey: key,
        productVersion,
        days: body.days,
      })
      return {
        status: created ? 201 : 200,
        body: { activation_id: activationId, licence_id: licenceId, expires_at: isoText(expiresAt), file },
      }
    },
  }),
  keylessRoute({
    method: 'POST',
    path: `${one}/subscription-sessions`,
    operationId: 'createSubscriptionSession',
    tag,
    summary: 'Open the payment processor’s page to change the card or cancel',
    description: 'Only while the licence rests on a subscription of the payment processor; else 409.',
    audience: 'customer',
    status: 201,
    answer: z.strictObject({ url: z.string().describe('The processor’s page for this customer.') }),
    errors: ['conflict'],
    handle: async ({ services, session, ownUrl }) => {
      const { purchaseRef } = await services.customers.getCustomerLicence(ownLicence(session))
      if (purchaseRef === undefined) throw noSubscription()
      const { url } = await services.billing.createSubscriptionSession({
        accountId: session.accountId,
        purchaseRef,
        returnUrl: `${ownUrl}/customer`,
      })
      return { body: { url } }
    },
  }),
]

function noSubscription(): ServiceError {
  return new ServiceError(
    'conflict',
    'this licence has no subscription that could be changed here: ask the vendor',
  )
}

/** @throws ServiceError `not_found` if the vendor allows no licence files */
async function maxDaysOf({
  services,
  session,
}: {
  services: Services
  session: FoundCustomerSession
}): Promise<number> {
  const { page } = await services.catalog.findCustomerPage(session)
  const days = Math.min(page?.offlineDays ?? 0, maxOfflineDays)
  if (days > 0) return days
  throw new ServiceError('not_found', 'licence files cannot be made here: ask the vendor for one')
}

/** @throws ServiceError `validation_failed` */
function readOfflineRequest(text: string): z.output<typeof offlineRequest> {
  const malformed = (why: string) =>
    invalid('/request', `is not the text of a request file, which the product makes on the machine: ${why}`)
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw malformed('it is not JSON')
  }
  const read = offlineRequest.safeParse(json)
  if (read.success) return read.data
  const [issue] = read.error.issues
  throw malformed([issue?.path.join('.'), issue?.message].filter(Boolean).join(' '))
}
