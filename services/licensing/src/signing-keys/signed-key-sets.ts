import type { Sql } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { transaction } from '@licensing/database/transaction'
import type { JWK } from 'jose'
import { LRUCache } from 'lru-cache'
import { createHash } from 'node:crypto'
import { findSigningKeys } from './signing-key-queries.ts'
import type { SigningKeys } from './signing-keys.ts'
import { ensureRootKeys } from './root-keys.ts'
import type { RootKeyDependencies } from './root-keys.ts'
import { findSignedKeySets, lockRootKeys, writeSignedKeySet } from './root-key-queries.ts'
import type { SignedKeySetRow } from './root-key-queries.ts'
import { signKeySet } from './root-key.ts'

/** An application's public signing keys, and the same keys signed by each of its current root keys. */
export interface PublishedKeys {
  keys: JWK[]
  signed: string[]
}

interface Options extends RootKeyDependencies {
  signingKeys: SigningKeys
  /** How long a retired signing key verifies. */
  keptSeconds: number
  now: () => Date
}

/** How long a signed key set is valid. */
const lifeSeconds = 30 * 86_400
// A set is signed again after this time, so that a product gets one that is valid for nearly the whole life.
const signedEveryMs = 86_400_000

// Every replica learns of a change within this time.
const cachedMs = 1_000
const maxApplications = 10_000

/**
 * The content of `jwks.json`. A set is signed if its keys have changed or it is a day old, under a lock for all replicas,
 * and stored in the database. So many requests cause no signatures, and a set never has fewer keys than an earlier one.
 */
export function publishedKeys(options: Options): (applicationId: string) => Promise<PublishedKeys> {
  const cached = new LRUCache<string, Promise<PublishedKeys>>({ max: maxApplications, ttl: cachedMs })
  return (applicationId) => {
    const known = cached.get(applicationId)
    if (known) return known
    const keys = read(options, applicationId)
    cached.set(applicationId, keys)
    keys.catch(() => cached.delete(applicationId))
    return keys
  }
}

async function read(options: Options, applicationId: string): Promise<PublishedKeys> {
  const { sql, encryption, now } = options
  // Makes the first signing key and root key if the application has none.
  await options.signingKeys.of(applicationId)
  await ensureRootKeys(sql, encryption, [applicationId])
  const { keys, sets } = await stored(sql, options, applicationId)
  const digest = digestOf(keys)
  if (sets.every((set) => isCurrent(set, digest, now()))) return { keys, signed: sets.map(({ jws }) => jws!) }
  return transaction(sql, async (tx) => {
    await lockRootKeys(tx, applicationId)
    // Everything is read again under the lock: another replica may have signed newer keys in between.
    const latest = await stored(tx, options, applicationId)
    const signed: string[] = []
    for (const set of latest.sets) {
      signed.push(await renewed(tx, { encryption, now: now() }, applicationId, latest.keys, set))
    }
    return { keys: latest.keys, signed }
  })
}

async function stored(sql: Sql, { keptSeconds }: Options, applicationId: string) {
  const rows = await findSigningKeys(sql, applicationId, keptSeconds)
  const sets = await findSignedKeySets(sql, applicationId)
  return { keys: rows.map((row) => row.public_jwk), sets }
}

/** The stored set if it is current; otherwise it is signed again with a later time. */
async function renewed(
  tx: Sql,
  { encryption, now }: { encryption: EncryptionKeys; now: Date },
  applicationId: string,
  keys: JWK[],
  set: SignedKeySetRow,
): Promise<string> {
  const digest = digestOf(keys)
  if (isCurrent(set, digest, now)) return set.jws!
  const before = set.issued_at ? set.issued_at.getTime() / 1000 : 0
  const iat = Math.max(Math.floor(now.getTime() / 1000), before + 1)
  const claims = { app_id: applicationId, keys, iat, exp: iat + lifeSeconds }
  const root = { kid: set.root_kid, private_key: set.private_key }
  const jws = await signKeySet(root, claims, encryption)
  await writeSignedKeySet(tx, { rootKid: set.root_kid, digest, issuedAt: new Date(iat * 1000), jws })
  return jws
}

function isCurrent(set: SignedKeySetRow, digest: Buffer, now: Date): boolean {
  if (!set.digest?.equals(digest) || !set.issued_at) return false
  return now.getTime() - set.issued_at.getTime() < signedEveryMs
}

function digestOf(keys: JWK[]): Buffer {
  const ordered = keys.toSorted((a, b) => (a.kid! < b.kid! ? -1 : 1))
  return createHash('sha256').update(JSON.stringify(ordered)).digest()
}
