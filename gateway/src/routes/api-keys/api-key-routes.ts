import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import {
  apiKeyJson,
  apiKeySchema,
  createApiKeyBody,
  newApiKeyJson,
  newApiKeySchema,
  ownApiKeyJson,
  ownApiKeySchema,
} from './api-key-json.ts'

const tag = 'API keys'

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
    summary: 'Get the API key of this request',
    description: 'Works with every API key. Returns its scopes, account and application.',
    scopes: closedSets.scope,
    answer: ownApiKeySchema,
    handle: async ({ services, accountId, keyId }) => ({
      body: ownApiKeyJson(await services.catalog.getApiKey({ accountId, keyId }), accountId),
    }),
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
    exists: ({ services, accountId, params }) =>
      services.catalog.getApiKey({ accountId, keyId: params.key_id }),
    handle: async ({ services, accountId, params }) => {
      await services.catalog.revokeApiKey({ accountId, keyId: params.key_id })
      return {}
    },
  }),
]
