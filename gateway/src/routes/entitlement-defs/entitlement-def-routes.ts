import { z } from 'zod'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import {
  createEntitlementDefBody,
  entitlementDefJson,
  entitlementDefSchema,
  updateEntitlementDefBody,
} from './entitlement-def-json.ts'
import { findEntitlementDef, ofEntitlementDef } from './find-entitlement-def.ts'

const tag = 'Entitlement definitions'
const all = '/v1/apps/{app_id}/entitlement-defs'
const one = '/v1/apps/{app_id}/entitlement-defs/{ent_id}'

export const entitlementDefRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: all,
    operationId: 'createEntitlementDefinition',
    tag,
    summary: 'Define an entitlement',
    scopes: ['admin'],
    body: createEntitlementDefBody,
    status: 201,
    answer: entitlementDefSchema,
    errors: ['already_exists', 'quota_exceeded'],
    handle: async (call) => {
      const { key, kind, display_name: displayName, default: value } = call.body
      const definition = await call.services.catalog.createEntitlementDefinition({
        ...within(call),
        key,
        kind,
        displayName,
        default: value,
      })
      return { body: entitlementDefJson(definition) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: all,
    operationId: 'listEntitlementDefinitions',
    tag,
    summary: 'List entitlement definitions',
    scopes: ['admin', 'read'],
    query: z.strictObject({ limit, cursor: idCursor('ent') }),
    answer: pageOf(entitlementDefSchema),
    handle: async (call) => {
      const { definitions, hasMore } = await call.services.catalog.listEntitlementDefinitions({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
      })
      return { body: page(definitions.map(entitlementDefJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: one,
    operationId: 'getEntitlementDefinition',
    tag,
    summary: 'Get an entitlement definition',
    scopes: ['admin', 'read'],
    answer: entitlementDefSchema,
    handle: async (call) => ({ body: entitlementDefJson(await findEntitlementDef(call)) }),
  }),
  vendorRoute({
    method: 'PATCH',
    path: one,
    operationId: 'updateEntitlementDefinition',
    tag,
    summary: 'Update an entitlement definition',
    description: 'The key and the kind cannot be changed. Existing licences keep their snapshot.',
    scopes: ['admin'],
    body: updateEntitlementDefBody,
    answer: entitlementDefSchema,
    exists: findEntitlementDef,
    handle: async (call) => {
      const definition = await call.services.catalog.updateEntitlementDefinition({
        ...ofEntitlementDef(call),
        displayName: call.body.display_name,
        default: call.body.default,
      })
      return { body: entitlementDefJson(definition) }
    },
  }),
  vendorRoute({
    method: 'DELETE',
    path: one,
    operationId: 'deleteEntitlementDefinition',
    tag,
    summary: 'Delete an entitlement definition and all plan values for it',
    description: 'Existing licences keep their snapshot.',
    scopes: ['admin'],
    exists: findEntitlementDef,
    handle: async (call) => {
      await call.services.catalog.deleteEntitlementDefinition(ofEntitlementDef(call))
      return {}
    },
  }),
]
