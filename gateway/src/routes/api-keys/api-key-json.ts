import type { ApiKey, CreateApiKeyResponse } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id, reference } from '../../fields/id.ts'
import { optional } from '../../fields/optional.ts'
import { text } from '../../fields/text.ts'
import { isoText, isoTextOrNull, timestampText } from '../../fields/timestamp.ts'

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

export const newApiKeySchema = z
  .strictObject({
    ...common,
    key: z
      .string()
      .nullable()
      .describe(
        'The API key, shown only once. It is `null` if the request is replayed: revoke the key then.',
      ),
  })
  .meta({ id: 'NewApiKey' })

export const ownApiKeySchema = z
  .strictObject({
    id: common.id,
    name: common.name,
    scopes: common.scopes,
    app_id: common.app_id,
    account_id: id('acct'),
  })
  .meta({ id: 'OwnApiKey' })

export const createApiKeyBody = z.strictObject({
  name: text(textLimits.name).meta({ examples: ['shop backend'] }),
  scopes: z
    .array(scope)
    .min(1, 'must name at least one scope')
    .transform((scopes) => [...new Set(scopes)]),
  app_id: optional(reference('app', 'application')).describe('Restricts the key to one application.'),
})

export function apiKeyJson(apiKey: ApiKey): z.output<typeof apiKeySchema> {
  return {
    ...commonJson(apiKey),
    last_used_at: isoTextOrNull(apiKey.lastUsedAt),
    revoked_at: isoTextOrNull(apiKey.revokedAt),
  }
}

export function ownApiKeyJson(apiKey: ApiKey, accountId: string): z.output<typeof ownApiKeySchema> {
  const { id, name, scopes, app_id } = commonJson(apiKey)
  return { id, name, scopes, app_id, account_id: accountId }
}

export function newApiKeyJson({ apiKey, key }: CreateApiKeyResponse): z.output<typeof newApiKeySchema> {
  return { ...commonJson(apiKey!), key: key || null }
}

function commonJson(apiKey: ApiKey) {
  return {
    id: apiKey.id,
    name: apiKey.name,
    scopes: apiKey.scopes.map((scope) => readMember('scope', scope)),
    app_id: apiKey.applicationId ?? null,
    last_four: apiKey.lastFour,
    created_at: isoText(apiKey.createdAt),
  }
}
