import { ServiceError } from '@licensing/grpc/errors'
import type { LicenceVerb } from '@licensing/proto/closed-sets'
import { LicenceFieldsSchema } from '@licensing/proto/licensing'
import { z } from 'zod'
import { fieldsFrom } from '../../fields/messages.ts'
import { cursorAfter, idCursor, limit, page, pageOf, positionCursor } from '../../fields/page.ts'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import type { Services } from '../../services.ts'
import {
  historyEntryJson,
  historyEntrySchema,
  licenceDetailJson,
  licenceDetailSchema,
  vendorActivationJson,
  vendorActivationSchema,
} from './licence-detail-json.ts'
import { namesOf } from '../members/actor-names.ts'
import { updateLicenceBody } from './licence-inputs.ts'
import { licenceJson, licenceSchema } from './licence-json.ts'

const tag = 'Licences'
const licencePath = '/v1/licences/{licence_id}'

export interface LicenceCall {
  services: Services
  accountId: string
  onlyApplicationId: string | undefined
  params: { readonly licence_id: string }
}

export function licenceScope({ accountId, onlyApplicationId, params }: LicenceCall) {
  return { accountId, onlyApplicationId, licenceId: params.licence_id }
}

export function findLicence(call: LicenceCall) {
  return call.services.licensing.getLicence(licenceScope(call))
}

async function findActivation(call: LicenceCall & { params: { readonly activation_id: string } }) {
  const { activation_id: id } = call.params
  // Pages have the newest activation first. `~` sorts after every character of an id, so the first activation before
  // `<id>~` is this one, if it exists.
  const upToIt = { ...licenceScope(call), limit: 1, beforeId: `${id}~` }
  const { activations } = await call.services.licensing.listActivations(upToIt)
  if (activations[0]?.id === id) return activations[0]
  throw new ServiceError('not_found', `licence ${call.params.licence_id} has no activation ${id}`)
}

function verbRoute(
  verb: LicenceVerb,
  summary: string,
  description: string,
  errors: Route['errors'] = [],
): Route {
  return vendorRoute({
    method: 'POST',
    path: `/v1/licences/{licence_id}/${verb}`,
    operationId: `${verb}Licence`,
    tag,
    summary,
    description,
    scopes: ['revoke'],
    answer: licenceSchema,
    errors: ['conflict', ...errors],
    lookUp: findLicence,
    handle: async (call) => {
      const request = { ...licenceScope(call), actor: call.actorId }
      return { body: licenceJson(await call.services.licensing[`${verb}Licence`](request)) }
    },
  })
}

export const oneLicenceRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: licencePath,
    operationId: 'getLicence',
    tag,
    summary: 'Get a licence with its entitlements, activations and recent call-homes',
    scopes: ['read'],
    answer: licenceDetailSchema,
    handle: async (call) => ({ body: licenceDetailJson(await findLicence(call)) }),
  }),
  vendorRoute({
    method: 'PATCH',
    path: licencePath,
    operationId: 'updateLicence',
    tag,
    summary: 'Update a licence',
    description:
      'Send any subset of the fields. An expired licence with a new expiry date in the future returns to its status before it expired.',
    scopes: ['issue'],
    body: updateLicenceBody,
    answer: licenceSchema,
    errors: ['conflict', 'plan_archived'],
    lookUp: findLicence,
    handle: async (call) => {
      const change = fieldsFrom(LicenceFieldsSchema, call.body)
      const request = { ...licenceScope(call), actor: call.actorId, ...change }
      return { body: licenceJson(await call.services.licensing.updateLicence(request)) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: `${licencePath}/history`,
    operationId: 'listLicenceHistory',
    tag,
    summary: 'List the history of a licence, newest first',
    scopes: ['read'],
    query: z.strictObject({ limit, cursor: positionCursor }),
    answer: pageOf(historyEntrySchema),
    lookUp: findLicence,
    handle: async (call) => {
      const { entries, hasMore } = await call.services.licensing.listLicenceHistory({
        ...licenceScope(call),
        limit: call.query.limit,
        beforePosition: call.query.cursor,
      })
      const last = entries.at(-1)
      const next_cursor = hasMore && last ? cursorAfter(String(last.position)) : null
      const names = await namesOf(call, entries)
      return { body: { data: entries.map((entry) => historyEntryJson(entry, names)), next_cursor } }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: `${licencePath}/activations`,
    operationId: 'listActivations',
    tag,
    summary: 'List the activations of a licence, newest first',
    scopes: ['read'],
    query: z.strictObject({ limit, cursor: idCursor('act') }),
    answer: pageOf(vendorActivationSchema),
    lookUp: findLicence,
    handle: async (call) => {
      const { activations, hasMore } = await call.services.licensing.listActivations({
        ...licenceScope(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
      })
      return { body: page(activations.map(vendorActivationJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'DELETE',
    path: `${licencePath}/activations/{activation_id}`,
    operationId: 'freeActivation',
    tag,
    summary: 'Free an activation',
    description:
      'For a lost machine: needs no token of the installation. The next refresh of the installation is answered with 404.',
    scopes: ['revoke'],
    lookUp: findActivation,
    handle: async (call) => {
      await call.services.licensing.freeActivation({
        ...licenceScope(call),
        activationId: call.params.activation_id,
        actor: call.actorId,
      })
      return {}
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${licencePath}/rotate-key`,
    operationId: 'rotateLicenceKey',
    tag,
    summary: 'Give a licence a new key',
    description:
      'The old key is unknown within 2 seconds. Activations and their tokens stay valid. A retry with the same `Idempotency-Key` answers the key of the first answer.',
    scopes: ['issue'],
    answer: licenceSchema,
    errors: ['conflict'],
    lookUp: findLicence,
    handle: async (call) => ({
      body: licenceJson(
        await call.services.licensing.rotateLicenceKey({ ...licenceScope(call), actor: call.actorId }),
      ),
    }),
  }),
  verbRoute(
    'suspend',
    'Suspend an active licence',
    'Installed products lose access at their next token refresh.',
  ),
  verbRoute('reactivate', 'Reactivate a suspended licence', 'The plan must be active.', ['plan_archived']),
  verbRoute(
    'revoke',
    'Revoke a licence permanently',
    'Online products stop within their check interval. A revocation cannot be undone. Revoking again changes nothing.',
  ),
  verbRoute(
    'retire',
    'Retire a licence',
    'Takes the licence out of use permanently. Retiring again changes nothing.',
  ),
]
