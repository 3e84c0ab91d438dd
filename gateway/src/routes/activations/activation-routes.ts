import { ServiceError } from '@licensing/grpc/errors'
import { z } from 'zod'
import { readLicenceKey } from '@licensing/formats/licence-key'
import { closedSets } from '@licensing/proto/closed-sets'
import { TokenGrantSchema } from '@licensing/proto/products'
import { textLimits } from '@licensing/proto/text'
import { keylessRoute, vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import type { Services } from '../../services.ts'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { isoText, timestampText } from '../../fields/time.ts'
import { host, optional, text } from '../../fields/text.ts'

const tag = 'Installed products'
const one = '/v1/activations/{activation_id}'

interface ActivationCall {
  services: Services
  token: string
  params: { readonly activation_id: string }
}

function checkActivation({ services, params, token }: ActivationCall) {
  return services.products.checkActivation({ activationId: params.activation_id, token })
}

const leaseEndsAt = timestampText
  .nullable()
  .describe('When the lease of the activation ends; null if the licence is not floating.')

export const grantFields = {
  activation_id: id('act'),
  licence_id: id('lic'),
  token: z
    .string()
    .describe('A JWT (EdDSA) that the product verifies offline with the application’s public keys.'),
  expires_at: timestampText.describe('When the token expires.'),
  refresh_after: timestampText.describe('When to refresh the token: after half of its life.'),
  check_interval_seconds: z.int().describe('How often to check the revocation list.'),
  lease_ends_at: leaseEndsAt,
}

export const grantSchema = z.strictObject(grantFields).meta({ id: 'TokenGrant' })

export const grantJson = renderer(TokenGrantSchema, grantSchema)

const productVersion = text(textLimits.product).meta({ examples: ['4.2.0'] })

const nonce = text(textLimits.product)
  .optional()
  .describe(
    'Random text. The token repeats it in the claim `nonce`, which shows that it was issued for this request.',
  )

export const installationFields = {
  fingerprint: text(textLimits.product).describe('Identifies the machine; chosen by the product.'),
  host,
  product_version: productVersion,
  nonce,
}

const licensedInstallationFields = {
  // Any string is accepted: a text that is not a licence key gets 404 like an unknown key, not a validation error.
  licence_key: z.string().meta({ examples: ['7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB'] }),
  ...installationFields,
}

const activateBody = z.strictObject({
  ...licensedInstallationFields,
  replace: optional(z.enum(closedSets.activationReplacement)).describe(
    '`oldest`: instead of `limit_reached`, the activation that called home longest ago is freed, on a floating licence one that holds a lease if no lease is free. An activation whose licence file has not ended is not freed. At most five times per licence and UTC day.',
  ),
})

const callHomeBody = z.strictObject({ product_version: productVersion, host })

const refreshBody = callHomeBody.extend({ nonce })

const maxDays = 366

const offlineActivationBody = z.strictObject({
  ...licensedInstallationFields,
  days: z
    .int()
    .min(1, 'must be at least 1')
    .max(maxDays, `must be at most ${maxDays}`)
    .describe('Validity of the file in days. It ends at `expires_on` of the licence if that is earlier.'),
})

export const offlineActivationSchema = z
  .strictObject({
    activation_id: id('act'),
    licence_id: id('lic'),
    expires_at: timestampText.describe('When the file expires.'),
    file: z
      .string()
      .describe(
        'Licence file for `activateOffline` of the SDK: the token and the signed key sets that verify it, one per line.',
      )
      .meta({ examples: ['-----BEGIN LICENCE-----\neyJ…\neyJ…\n-----END LICENCE-----\n'] }),
  })
  .meta({ id: 'OfflineActivation' })

export const activationRoutes: Route[] = [
  keylessRoute({
    method: 'POST',
    path: '/v1/activations',
    operationId: 'activate',
    tag,
    summary: 'Activate an installation',
    description: 'Called by the installed product, with a licence key.',
    audience: 'product',
    body: activateBody,
    status: 201,
    alsoAnswers: { 200: 'The fingerprint is already activated: the same activation.' },
    answer: grantSchema,
    errors: ['not_found', 'licence_refused', 'limit_reached', 'quota_exceeded'],
    guessableKey: ({ body }) => readLicenceKey(body.licence_key) ?? body.licence_key,
    handle: async ({ services, body }) => {
      const { licence_key: licenceKey, product_version: productVersion, ...rest } = body
      const { grant, created } = await services.products.activate({
        ...rest,
        licenceKey: licenceKeyIn(licenceKey),
        productVersion,
      })
      return { status: created ? 201 : 200, body: grantJson(grant!) }
    },
  }),
  keylessRoute({
    method: 'POST',
    path: `${one}/refresh`,
    operationId: 'refreshActivation',
    tag,
    summary: 'Get a new token',
    description:
      'Authenticate with the latest token of the activation; it can be expired. A refresh counts as a call-home. On a floating licence it takes or prolongs the lease; if that has ended and no other is free, the answer is `limit_reached`.',
    audience: 'activation',
    body: refreshBody,
    answer: grantSchema,
    errors: ['licence_refused', 'limit_reached'],
    lookUp: checkActivation,
    handle: async (call) => ({
      body: grantJson(
        await call.services.products.refreshActivation({ ...callHome(call), nonce: call.body.nonce }),
      ),
    }),
  }),
  keylessRoute({
    method: 'POST',
    path: `${one}/call-home`,
    operationId: 'recordCallHome',
    tag,
    summary: 'Report that an installation is in use',
    description: 'Answered with 204 for every status of the licence.',
    audience: 'activation',
    body: callHomeBody,
    lookUp: checkActivation,
    handle: async (call) => {
      await call.services.products.recordCallHome(callHome(call))
      return {}
    },
  }),
  keylessRoute({
    method: 'POST',
    path: `${one}/release`,
    operationId: 'releaseActivation',
    tag,
    summary: 'End the lease of an installation',
    description:
      'Call it when the product of a floating licence ends: the activation stays. The first ten releases and deactivations by products for a licence on a UTC day free their lease at once; each further one keeps it until its last token ends. The lease of a licence file lasts until the file ends. Authenticate with a token of the activation; it can be expired. Answered with 204 also if it holds no lease.',
    audience: 'activation',
    lookUp: checkActivation,
    handle: async ({ services, params, token }) => {
      await services.products.release({ activationId: params.activation_id, token })
      return {}
    },
  }),
  keylessRoute({
    method: 'DELETE',
    path: one,
    operationId: 'deactivate',
    tag,
    summary: 'Deactivate an installation',
    description:
      'Call it when the product is uninstalled or moved to another machine. The token can no longer be refreshed. The first ten deactivations and releases by products for a licence on a UTC day free their place and lease at once; each further one keeps them until its last token ends. A licence file keeps them until it ends, or until the vendor frees the activation.',
    audience: 'activation',
    lookUp: checkActivation,
    handle: async ({ services, params, token }) => {
      await services.products.deactivate({ activationId: params.activation_id, token })
      return {}
    },
  }),
]

function callHome(call: {
  token: string
  params: { readonly activation_id: string }
  body: { host: string; product_version: string }
}) {
  return {
    activationId: call.params.activation_id,
    token: call.token,
    host: call.body.host,
    productVersion: call.body.product_version,
  }
}

export const offlineActivationRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: '/v1/apps/{app_id}/offline-activations',
    operationId: 'activateOffline',
    tag: 'Installed products',
    summary: 'Create a licence file for a machine without a network',
    description:
      'The body is the result of `createOfflineRequest` of the SDK plus `days`. The file counts as an activation. A revocation does not reach the machine while it is offline. The file keeps its place, and a lease of a floating licence, until it expires or the vendor frees the activation; it stays valid even then.',
    scopes: ['issue'],
    body: offlineActivationBody,
    status: 201,
    alsoAnswers: { 200: 'The fingerprint is already activated: a new file for the same activation.' },
    answer: offlineActivationSchema,
    errors: ['not_found', 'licence_refused', 'limit_reached', 'quota_exceeded'],
    handle: async (call) => {
      const { licence_key: licenceKey, product_version: productVersion, ...body } = call.body
      const { activationId, licenceId, expiresAt, file, created } =
        await call.services.products.activateOffline({
          ...within(call),
          ...body,
          licenceKey: licenceKeyIn(licenceKey),
          productVersion,
        })
      return {
        status: created ? 201 : 200,
        body: {
          activation_id: activationId,
          licence_id: licenceId,
          expires_at: isoText(expiresAt),
          file,
        },
      }
    },
  }),
]

/** @throws ServiceError for a text that cannot be a licence key, without a call of a service */
function licenceKeyIn(text: string): string {
  const key = readLicenceKey(text)
  if (key === undefined) throw new ServiceError('not_found', 'there is no such licence key')
  return key
}
