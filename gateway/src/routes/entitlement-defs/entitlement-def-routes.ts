import { z } from 'zod'
import { EntitlementDefinitionSchema } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { closedSets } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute, within } from '../../route.ts'
import type { CallIn, Route } from '../../route.ts'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { optional, lengths, text } from '../../fields/text.ts'

const tag = 'Entitlement definitions'
const all = '/v1/apps/{app_id}/entitlement-defs'
const one = '/v1/apps/{app_id}/entitlement-defs/{ent_id}'

const displayName = text(textLimits.name).meta({ examples: ['Export to PDF'] })
const anyValue = /^(?:true|false|0|-?[1-9][0-9]{0,14})$/
const value = z
  .string()
  .regex(anyValue, 'must be true or false, or an integer written as a string')
  .meta({ examples: ['false'] })
const kind = z.enum(closedSets.entitlementKind)

const values: Record<EntitlementKind, { pattern: RegExp; message: string }> = {
  feature: { pattern: /^(?:true|false)$/, message: 'must be true or false' },
  limit: { pattern: /^(?:0|-?[1-9][0-9]{0,14})$/, message: 'must be an integer written as a string' },
}

export const entitlementDefSchema = z
  .strictObject({
    id: id('ent'),
    key: z.string().meta({ examples: ['export_pdf'] }),
    kind,
    display_name: z.string(),
    default: z.string().describe('Value for plans that do not set their own.'),
  })
  .meta({ id: 'EntitlementDefinition' })

const entitlementDefJson = renderer(EntitlementDefinitionSchema, entitlementDefSchema)

const keyPattern = /^[a-z][a-z0-9_]*$/

/** Whether text has the form of an entitlement's key. */
export function isEntitlementKey(key: string): boolean {
  return keyPattern.test(key) && key.length <= textLimits.entitlementKey.max
}

const createEntitlementDefBody = z
  .strictObject({
    key: text(textLimits.entitlementKey)
      .regex(keyPattern, `must match ${keyPattern.source}`)
      .meta({ ...lengths(textLimits.entitlementKey), examples: ['export_pdf'] })
      .describe('The key that installed products use. It cannot be changed.'),
    kind,
    display_name: optional(displayName).describe('Default: the key.'),
    default: optional(value).describe(
      '`true` or `false` for a feature, an integer for a limit. Default: `false` or `0`.',
    ),
  })
  .superRefine((definition, context) => {
    const { kind, default: value } = definition
    if (value === undefined || !anyValue.test(value) || values[kind].pattern.test(value)) return
    context.addIssue({ code: 'custom', path: ['default'], message: values[kind].message })
  })

const updateEntitlementDefBody = z.strictObject({
  display_name: optional(displayName),
  default: optional(value),
})

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
    lookUp: findEntitlementDef,
    handle: async (call) => {
      const definition = await call.services.catalog.updateEntitlementDefinition({
        ...entitlementDefScope(call),
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
    lookUp: findEntitlementDef,
    handle: async (call) => {
      await call.services.catalog.deleteEntitlementDefinition(entitlementDefScope(call))
      return {}
    },
  }),
]

type EntitlementDefCall = CallIn<'ent_id'>

/** The account, application and definition that a call is about. */
function entitlementDefScope(call: EntitlementDefCall) {
  return { ...within(call), entitlementDefId: call.params.ent_id }
}

function findEntitlementDef(call: EntitlementDefCall) {
  return call.services.catalog.getEntitlementDefinition(entitlementDefScope(call))
}
