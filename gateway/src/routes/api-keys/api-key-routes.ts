import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { ApiKeySchema } from '@licensing/proto/catalog'
import type { CreateApiKeyResponse } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import { id, reference } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { optional, text } from '../../fields/text.ts'
import { timestampText } from '../../fields/time.ts'

const tag = 'API keys'

const scope = z.enum(closedSets.scope)

const common = {
  id: id('key'),
  name: z.string(),
  scopes: z.array(scope),
  app_id: id('app')
    .nullable()
    .describe('The application that the key is restricted to; null for all applications.'),
  last_four: z.string().describe('The key’s last four characters.'),
  created_at: timestampText,
}

export const apiKeySchema = z
  .strictObject({
    ...common,
    last_used_at: timestampText.nullable(),
    revoked_at: timestampText.nullable(),
  })
  .meta({ id: 'ApiKey' })

const apiKeyJson = renderer(ApiKeySchema, apiKeySchema)

const newApiKeySchema = z
  .strictObject({
    ...common,
    key: z
      .string()
      .nullable()
      .describe(
        'The API key, shown only once. It is `null` if the request is replayed: revoke the key then.',
      ),
  })
  .meta({ id: 'CreatedApiKey' })

const commonJson = renderer(ApiKeySchema, z.strictObject(common))

const ownApiKeySchema = z
  .strictObject({
    id: z
      .string()
      .describe('The id of the API key, or of the member who is signed in to the portal.')
      .meta({ examples: ['key_01k9zj3v8qe5ktw2m4x6r7n8ab'] }),
    name: z.string().describe('The key’s name; the person’s name, or address if the name is not known.'),
    email: z.string().optional().describe('The person’s address; an API key has none.'),
    role: z.enum(closedSets.memberRole).optional().describe('The person’s role; an API key has none.'),
    scopes: common.scopes,
    app_id: common.app_id,
    account_id: id('acct'),
  })
  .meta({ id: 'OwnApiKey' })

const createApiKeyBody = z.strictObject({
  name: text(textLimits.name).meta({ examples: ['shop backend'] }),
  scopes: z
    .array(scope)
    .min(1, 'must name at least one scope')
    .transform((scopes) => [...new Set(scopes)]),
  app_id: optional(reference('app', 'application')).describe('Restricts the key to one application.'),
})

export const apiKeyRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: '/v1/api-keys',
    operationId: 'createApiKey',
    tag,
    summary: 'Create an API key',
    scopes: ['admin'],
    accountWide: true,
    body: createApiKeyBody,
    status: 201,
    answer: newApiKeySchema,
    errors: ['quota_exceeded'],
    handle: async ({ services, accountId, body }) => ({
      body: newApiKeyJson(
        await services.catalog.createApiKey({
          accountId,
          name: body.name,
          scopes: body.scopes,
          applicationId: body.app_id,
        }),
      ),
    }),
  }),
  vendorRoute({
    method: 'GET',
    path: '/v1/api-keys',
    operationId: 'listApiKeys',
    tag,
    summary: 'List API keys, including revoked ones',
    scopes: ['admin'],
    accountWide: true,
    query: z.strictObject({ limit, cursor: idCursor('key') }),
    answer: pageOf(apiKeySchema),
    handle: async ({ services, accountId, query }) => {
      const { apiKeys, hasMore } = await services.catalog.listApiKeys({
        accountId,
        limit: query.limit,
        beforeId: query.cursor,
      })
      return { body: page(apiKeys.map(apiKeyJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: '/v1/api-keys/self',
    operationId: 'getOwnApiKey',
    tag,
    summary: 'Get the API key or the person of this request',
    description:
      'Works with every API key, and for every member. Returns the scopes, account and application.',
    scopes: closedSets.scope,
    answer: ownApiKeySchema,
    handle: async ({ services, accountId, actorId, scopes, role, onlyApplicationId }) => {
      const common = {
        id: actorId,
        scopes: [...scopes],
        app_id: onlyApplicationId ?? null,
        account_id: accountId,
      }
      if (role === undefined) {
        const { name } = await services.catalog.getApiKey({ accountId, keyId: actorId })
        return { body: { ...common, name } }
      }
      const { name, email } = await services.catalog.getMember({ accountId, memberId: actorId })
      return { body: { ...common, name: name ?? email, email, role } }
    },
  }),
  vendorRoute({
    method: 'DELETE',
    path: '/v1/api-keys/{key_id}',
    operationId: 'revokeApiKey',
    tag,
    summary: 'Revoke an API key',
    description: 'The key is refused within 2 seconds and stays listed. Revoking again changes nothing.',
    scopes: ['admin'],
    accountWide: true,
    lookUp: ({ services, accountId, params }) =>
      services.catalog.getApiKey({ accountId, keyId: params.key_id }),
    handle: async ({ services, accountId, params }) => {
      await services.catalog.revokeApiKey({ accountId, keyId: params.key_id })
      return {}
    },
  }),
]

function newApiKeyJson({ apiKey, key }: CreateApiKeyResponse): z.output<typeof newApiKeySchema> {
  return { ...commonJson(apiKey!), key: key || null }
}
