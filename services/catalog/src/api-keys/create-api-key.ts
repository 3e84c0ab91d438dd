import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Sql } from '@licensing/database/connect'
import { isId, newId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { invalid } from '@licensing/grpc/errors'
import type { CreateApiKeyRequest, CreateApiKeyResponseSchema } from '@licensing/proto/catalog'
import { closedSets, isMember, readMember } from '@licensing/proto/closed-sets'
import type { CatalogDeps } from '../dependencies.ts'
import { notFound, Violations } from '../refusals.ts'
import type { ApiKeyRow } from './api-key-queries.ts'
import { insertKey } from './api-key-queries.ts'
import { toApiKey } from './api-key.ts'
import { hashOfKey, newKey } from './key-format.ts'

export async function createApiKey(
  { sql }: CatalogDeps,
  request: CreateApiKeyRequest,
): Promise<MessageInitShape<typeof CreateApiKeyResponseSchema>> {
  const { row, key } = await mintKey(sql, request)
  return { apiKey: toApiKey(row), key }
}

/** Makes a key; the one that comes back is shown once and kept nowhere. */
export async function mintKey(
  sql: Sql,
  wanted: { accountId: string; name: string; scopes: readonly string[]; applicationId?: string | undefined },
): Promise<{ row: ApiKeyRow; key: string }> {
  const { accountId, applicationId, name } = wanted
  const violations = new Violations()
  violations.checkName('/name', name)
  const known = closedSets.scope.join(', ')
  if (wanted.scopes.length === 0) violations.add('/scopes', `must name at least one of ${known}`)
  wanted.scopes.forEach((scope, at) => {
    if (!isMember('scope', scope)) violations.add(`/scopes/${at}`, `must be one of ${known}`)
  })
  if (applicationId !== undefined && !isId('app', applicationId)) violations.add('/app_id', noSuchApplication)
  violations.throwIfAny()

  const key = newKey()
  const row = await insertKey(sql, {
    id: newId('key'),
    accountId,
    applicationId: applicationId ?? null,
    name,
    hash: hashOfKey(key),
    lastFour: key.slice(-4),
    scopes: [...new Set(wanted.scopes)].map((scope) => readMember('scope', scope)),
  }).catch((error: unknown) => {
    const broken = brokenConstraint(error)
    if (broken === 'api_keys_application') throw invalid('/app_id', noSuchApplication)
    if (broken === 'api_keys_account_id_fkey') throw notFound('account', accountId)
    throw error
  })
  return { row, key }
}

const noSuchApplication = 'must be the id of an application of this account'
