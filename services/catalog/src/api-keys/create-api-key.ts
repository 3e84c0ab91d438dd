import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { isId, newId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { invalid } from '@licensing/grpc/errors'
import { CreateApiKeyResponseSchema } from '@licensing/proto/catalog'
import type { CreateApiKeyRequest } from '@licensing/proto/catalog'
import { closedSets, isMember, readMember } from '@licensing/proto/closed-sets'
import { checkQuota } from '@licensing/quotas/quota'
import { lockAccount } from '../accounts/account-queries.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound, Violations } from '../refusals.ts'
import type { ApiKeyRow } from './api-key-queries.ts'
import { countKeysInForce, insertKey } from './api-key-queries.ts'
import { toApiKey } from './api-key.ts'
import { hashOfKey, newKey } from './key-format.ts'

export async function createApiKey(
  { change, queue }: CatalogDependencies,
  request: CreateApiKeyRequest,
): Promise<MessageInitShape<typeof CreateApiKeyResponseSchema>> {
  const answer = { schema: CreateApiKeyResponseSchema, of: toResponse }
  const minted = await queue.inTurn(request.accountId, () => change((tx) => mintKey(tx, request), { answer }))
  return toResponse(minted)
}

function toResponse({ row, key }: MintedKey): MessageInitShape<typeof CreateApiKeyResponseSchema> {
  return { apiKey: toApiKey(row), key }
}

interface MintedKey {
  row: ApiKeyRow
  key: string
}

/** Makes a key; the one that comes back is shown once and kept nowhere. */
export async function mintKey(
  tx: Transaction,
  wanted: { accountId: string; name: string; scopes: readonly string[]; applicationId?: string | undefined },
): Promise<MintedKey> {
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

  if (!(await lockAccount(tx, accountId))) throw notFound('account', accountId)
  const key = newKey()
  const row = await insertKey(tx, {
    id: newId('key'),
    accountId,
    applicationId: applicationId ?? null,
    name,
    hash: hashOfKey(key),
    lastFour: key.slice(-4),
    scopes: [...new Set(wanted.scopes)].map((scope) => readMember('scope', scope)),
  }).catch((error: unknown) => {
    throw brokenConstraint(error) === 'api_keys_application' ? invalid('/app_id', noSuchApplication) : error
  })
  await checkQuota(tx, accountId, 'api_keys', await countKeysInForce(tx, accountId))
  return { row, key }
}

const noSuchApplication = 'must be the id of an application of this account'
