import { audit } from '@licensing/changes/audit'
import type { Change } from '@licensing/changes/change'
import type { HandlerOf } from '@licensing/changes/repeatable'
import type { Database, Sql } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { RootKeyService } from '@licensing/proto/root-keys'
import { currentMs } from '@licensing/process/clock'
import {
  findCurrentRootKeys,
  findNewestRootKeys,
  insertFirstRootKeys,
  insertNextRootKey,
  lockRootKeys,
  retireRootKeysBefore,
} from './root-key-queries.ts'
import { newRootKey } from './root-key.ts'
import { checkApplicationId } from './signing-keys.ts'

export interface RootKeyDependencies {
  sql: Database
  encryption: EncryptionKeys
}

type Handler<Rpc extends keyof (typeof RootKeyService)['method']> = HandlerOf<
  typeof RootKeyService,
  Rpc,
  RootKeyDependencies & { change: Change }
>

// More than a page of applications.
const maxApplications = 1_000

/** The newest root key of each application, in the order of the request. */
export const getRootKeys: Handler<'getRootKeys'> = async ({ sql, encryption }, { applicationIds }) => {
  if (applicationIds.length > maxApplications) {
    throw invalid('/application_ids', `must be at most ${maxApplications}`)
  }
  applicationIds.forEach(checkApplicationId)
  const known = await ensureRootKeys(sql, encryption, applicationIds)
  return { rootKeys: applicationIds.map((id) => known.get(id)!) }
}

/** The newest root keys by application. An application that has none gets its first. */
export async function ensureRootKeys(
  sql: Sql,
  encryption: EncryptionKeys,
  applicationIds: string[],
): Promise<Map<string, string>> {
  const known = await findNewestRootKeys(sql, applicationIds)
  const missing = [...new Set(applicationIds)].filter((id) => !known.has(id)).toSorted()
  if (missing.length === 0) return known
  await insertFirstRootKeys(
    sql,
    missing.map((id) => newRootKey(id, encryption)),
  )
  return findNewestRootKeys(sql, applicationIds)
}

/** Adds a root key to an application. The earlier ones continue to sign, so products that pin them keep working. */
export const rotateRootKey: Handler<'rotateRootKey'> = async (
  { sql, change, encryption },
  { accountId, applicationId },
) => {
  checkApplicationId(applicationId)
  await ensureRootKeys(sql, encryption, [applicationId])
  const next = newRootKey(applicationId, encryption)
  const former = await change(async (tx) => {
    await lockRootKeys(tx, applicationId)
    const current = await findCurrentRootKeys(tx, applicationId)
    await insertNextRootKey(tx, next, current[0]!.generation + 1)
    const changes = { root_key: { from: current[0]!.kid, to: next.kid } }
    await audit(tx, { accountId, applicationId, resourceId: applicationId, changes })
    return current
  })
  return { rootKey: next.kid, current: [next.kid, ...former.map(({ kid }) => kid)] }
}

// Long enough for releases that pin the new root key to reach the installations.
const overlapMs = 180 * 86_400_000

/** Retires all root keys of an application except the newest. Products that pin only retired ones can no longer be licensed. */
export const retireRootKeys: Handler<'retireRootKeys'> = async (
  { sql, change, encryption },
  { accountId, applicationId, force },
) => {
  checkApplicationId(applicationId)
  await ensureRootKeys(sql, encryption, [applicationId])
  return change(async (tx) => {
    await lockRootKeys(tx, applicationId)
    const [newest, ...older] = await findCurrentRootKeys(tx, applicationId)
    const from = new Date(newest!.created_at.getTime() + overlapMs)
    if (older.length > 0 && !force && from.getTime() > currentMs()) {
      throw new ServiceError(
        'conflict',
        `the newest root key was made at ${newest!.created_at.toISOString()}: products without it would no longer be licensed; retire the older ones from ${from.toISOString()}, or with --force`,
      )
    }
    const retired = await retireRootKeysBefore(tx, applicationId, newest!.generation)
    // The API shows only the newest root key.
    const changes = retired.length > 0 ? { retire: { from: null, to: true } } : undefined
    await audit(tx, { accountId, applicationId, resourceId: applicationId, changes })
    return { rootKey: newest!.kid, current: [newest!.kid], retired }
  })
}
