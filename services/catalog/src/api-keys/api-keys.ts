import { messageOf } from '@licensing/grpc/fields'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { audit, changesOf, newSecrets } from '@licensing/changes/audit'
import type { Changes } from '@licensing/changes/audit'
import { ServiceError, invalid } from '@licensing/grpc/errors'
import { ApiKeySchema, CreateApiKeyResponseSchema, PrincipalSchema } from '@licensing/proto/catalog'
import type { ApiKey, Principal } from '@licensing/proto/catalog'
import { timingSafeEqual } from 'node:crypto'
import type { Transaction } from '@licensing/database/connect'
import { isId, newId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { closedSets, isMember, readMember } from '@licensing/proto/closed-sets'
import { checkQuota } from '@licensing/quotas/quota'
import { pageOf } from '@licensing/database/page'
import type { Handler } from '../dependencies.ts'
import {
  findKeyByHash,
  findKeysByHash,
  countKeysInForce,
  insertKey,
  findKey,
  lockKey,
  listKeyRows,
  revokeKeyRow,
} from './api-key-queries.ts'
import type { ApiKeyRow, KeyOwner } from './api-key-queries.ts'
import { lockAccount } from '../accounts/account-queries.ts'
import { notFound, Violations, checkPage } from '../refusals.ts'
import { hashOfKey, newKey } from './key-format.ts'

export const authenticateKey: Handler<'authenticateKey'> = async ({ sql, keyUse }, { keyHash }) => {
  const row = keyHash.length === 32 ? await findKeyByHash(sql, keyHash) : undefined
  if (!row || !timingSafeEqual(row.key_hash, keyHash) || row.revoked_at) {
    throw new ServiceError('unauthenticated', 'the API key is unknown or revoked')
  }
  keyUse.touch(row.id)
  return toPrincipal(row)
}

const maxBatchSize = 1_000

/** Looks up keys that a gateway does not know yet. Most are invalid, so all share one statement on a separate connection. */
export const authenticateKeys: Handler<'authenticateKeys'> = async ({ lookups, keyUse }, { keyHashes }) => {
  if (keyHashes.length > maxBatchSize) throw invalid('/key_hashes', `must be at most ${maxBatchSize}`)
  const asked = keyHashes.map((keyHash) => Buffer.from(keyHash).toString('hex'))
  const rows = await findKeysByHash(lookups, asked)
  const known = new Map(rows.map((row) => [row.key_hash.toString('hex'), row]))
  return {
    answers: asked.map((keyHash) => {
      const row = known.get(keyHash)
      if (!row) return {}
      keyUse.touch(row.id)
      return { principal: toPrincipal(row) }
    }),
  }
}

export const createApiKey: Handler<'createApiKey'> = async ({ change, queue }, request) => {
  const answer = { schema: CreateApiKeyResponseSchema, toMessage: toResponse }
  const create = async (tx: Transaction) => {
    const generated = await generateKey(tx, request)
    await auditKey(tx, undefined, generated.row, newSecrets(CreateApiKeyResponseSchema))
    return generated
  }
  return toResponse(await queue.run(request.accountId, () => change(create, { answer })))
}

/** @param secrets the fields of secrets that are made */
async function auditKey(
  tx: Transaction,
  before: ApiKeyRow | undefined,
  after: ApiKeyRow,
  secrets: Changes = {},
): Promise<void> {
  const changes = changesOf(ApiKeySchema, before && toApiKey(before), toApiKey(after))
  await audit(tx, {
    accountId: after.account_id,
    applicationId: after.application_id ?? undefined,
    resourceId: after.id,
    changes: changes && { ...changes, ...secrets },
  })
}

function toResponse({ row, key }: GeneratedKey): MessageInitShape<typeof CreateApiKeyResponseSchema> {
  return { apiKey: toApiKey(row), key }
}

interface GeneratedKey {
  row: ApiKeyRow
  key: string
}

/** Creates an API key. The key itself is returned here and not stored. */
export async function generateKey(
  tx: Transaction,
  wanted: { accountId: string; name: string; scopes: readonly string[]; applicationId?: string | undefined },
): Promise<GeneratedKey> {
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

/** Also returns revoked keys, because they stay in the list. */
export const getApiKey: Handler<'getApiKey'> = async ({ sql }, { accountId, keyId }) => {
  const row = isId('key', keyId) ? await findKey(sql, accountId, keyId) : undefined
  if (!row) throw notFound('API key', keyId)
  return toApiKey(row)
}

export const listApiKeys: Handler<'listApiKeys'> = async ({ sql, keyUse }, request) => {
  checkPage('key', request)
  // Stores every use so far, so that `last_used_at` includes it.
  await keyUse.flush()
  const rows = await listKeyRows(sql, request.accountId, request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { apiKeys: page.map(toApiKey), hasMore }
}

/** Revoking a key again changes nothing and has the same answer. */
export const revokeApiKey: Handler<'revokeApiKey'> = async ({ change }, { accountId, keyId }) => {
  await change((tx) => revokeKey(tx, { accountId }, keyId))
  return {}
}

/**
 * Revokes a key. No event reports it to gateways: a gateway asks about a key each second, and uses an answer for 2 seconds
 * (refused everywhere within 2 seconds: docs/guides/concepts.md, "Scopes of API keys").
 *
 * @throws ServiceError `not_found` if there is no such key
 */
export async function revokeKey(tx: Transaction, owner: KeyOwner, keyId: string): Promise<void> {
  const before = isId('key', keyId) ? await lockKey(tx, owner, keyId) : undefined
  if (!before) throw notFound('API key', keyId)
  if (before.revoked_at) return
  await auditKey(tx, before, await revokeKeyRow(tx, keyId))
}

/** The caller that an API key identifies. */
function toPrincipal(row: ApiKeyRow): Principal {
  return messageOf(PrincipalSchema, { ...row, actor_id: row.id, role: null })
}

function toApiKey(row: ApiKeyRow): ApiKey {
  return messageOf(ApiKeySchema, row)
}
