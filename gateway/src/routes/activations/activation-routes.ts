import { ServiceError } from '@licensing/grpc/errors'
import { keylessRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import type { Services } from '../../services.ts'
import {
  activateBody,
  callHomeBody,
  couldBeLicenceKey,
  grantJson,
  grantSchema,
  refreshBody,
} from './activation-json.ts'

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
    handle: async ({ services, body }) => {
      const { licence_key: licenceKey, product_version: productVersion, ...rest } = body
      if (!couldBeLicenceKey(licenceKey)) throw new ServiceError('not_found', 'there is no such licence key')
      const { grant, created } = await services.products.activate({
        ...rest,
        licenceKey,
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
      'Authenticate with the latest token of the activation; it can be expired. A refresh counts as a call-home.',
    audience: 'activation',
    body: refreshBody,
    answer: grantSchema,
    errors: ['licence_refused'],
    exists: checkActivation,
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
    exists: checkActivation,
    handle: async (call) => {
      await call.services.products.recordCallHome(callHome(call))
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
      'Call it when the product is uninstalled or moved to another machine. The token can no longer be refreshed. The first ten calls for a licence on a UTC day free their place at once; the place of each further one counts against `max_activations` until its last token ends.',
    audience: 'activation',
    exists: checkActivation,
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
