import { isCount, isNullOr, isObject, isString, readTimestamp } from './shape.ts'
import { isKeySet, type KeySet } from './signature.ts'
import type { SeenTime } from './trusted-time.ts'

/**
 * The content of the store. It is not trusted: token and lists are verified again when they are read, and a stored
 * time can only move the trusted time ahead.
 */
export interface StoredRecord {
  readonly appId: string
  readonly licenceKey: string | null
  readonly legacyKey: string | null
  readonly fingerprint: string
  readonly token: string | null
  /** The activation of the token held a lease of a floating licence. */
  readonly floating: boolean
  readonly refusal: string | null
  /** The signed key set that was last accepted. */
  readonly signedKeys: string | null
  /** The keys of a client without a root key. */
  readonly keySet: KeySet | null
  /** The signed key set of the file that the token came in. */
  readonly fileKeys: string | null
  readonly revocations: StoredRevocations | null
  readonly seen: SeenTime
  /** How often the token or its licence key was replaced: the record with the higher number is newer. */
  readonly revision: number
  /** The nonce with which a file may set the time back; null if no file may. */
  readonly nonce: string | null
}

export interface StoredRevocations {
  /** The signed list that was last accepted, whole or incremental: it proves the current version. */
  readonly list: string | null
  /** The signed list that named the licence. */
  readonly namedBy: string | null
  readonly etag: string | null
  /** The `since` of the request that the ETag answers; null for the whole list. */
  readonly etagSince: number | null
  /** When the service last confirmed the list, in milliseconds since 1970 UTC. */
  readonly checkedAt: number
}

export function serialise(record: StoredRecord): string {
  const { revocations, seen } = record
  return JSON.stringify({
    format: 1,
    app_id: record.appId,
    licence_key: record.licenceKey,
    legacy_key: record.legacyKey,
    fingerprint: record.fingerprint,
    token: record.token,
    floating: record.floating,
    refusal: record.refusal,
    signed_keys: record.signedKeys,
    jwks: record.keySet,
    file_keys: record.fileKeys,
    revocations: revocations && {
      list: revocations.list,
      named_by: revocations.namedBy,
      etag: revocations.etag,
      etag_since: revocations.etagSince,
      checked_at: timestamp(revocations.checkedAt),
    },
    seen: {
      time: timestamp(seen.time),
      local: timestamp(seen.local),
      turned_back: seen.turnedBack,
      corrections: seen.corrections,
    },
    revision: record.revision,
    nonce: record.nonce,
  })
}

/** Reads a record; null for any other text. */
export function parse(text: string): StoredRecord | null {
  try {
    return readRecord(JSON.parse(text))
  } catch {
    return null
  }
}

function readRecord(value: unknown): StoredRecord | null {
  if (!isObject(value) || value['format'] !== 1) return null
  const { app_id: appId, licence_key: licenceKey, legacy_key: legacyKey, fingerprint } = value
  const { token, refusal, jwks, signed_keys: signedKeys = null, file_keys: fileKeys = null } = value
  const { revision = 0, nonce = null } = value
  const seen = readSeen(value['seen'])
  const revocations = value['revocations'] === null ? null : readRevocations(value['revocations'])
  if (!isString(appId) || !isString(fingerprint) || !seen || revocations === undefined) return null
  if (!isNullOrString(licenceKey) || !isNullOrString(legacyKey)) return null
  if (!isNullOrString(token) || !isNullOrString(refusal)) return null
  if (!isNullOrString(signedKeys) || !isNullOrString(fileKeys)) return null
  if (jwks !== null && !isKeySet(jwks)) return null
  if (!isCount(revision) || !isNullOrString(nonce)) return null
  const keys = { signedKeys, keySet: jwks, fileKeys }
  const floating = value['floating'] === true
  const licence = { licenceKey, legacyKey, fingerprint, token, floating, refusal, revision, nonce }
  return { appId, ...licence, ...keys, revocations, seen }
}

function readRevocations(value: unknown): StoredRevocations | undefined {
  if (!isObject(value)) return undefined
  const { list, named_by: namedBy, etag, etag_since: etagSince } = value
  const checkedAt = readTimestamp(value['checked_at'])
  if (!isNullOrString(list) || !isNullOrString(namedBy) || !isNullOrString(etag)) return undefined
  if (checkedAt === null || (etagSince !== null && typeof etagSince !== 'number')) return undefined
  return { list, namedBy, etag, etagSince, checkedAt }
}

function readSeen(value: unknown): SeenTime | null {
  if (!isObject(value)) return null
  const time = readTimestamp(value['time'])
  const local = readTimestamp(value['local'])
  const { corrections = 0 } = value
  if (time === null || local === null || !isCount(corrections)) return null
  return { time, local, turnedBack: value['turned_back'] === true, corrections }
}

const isNullOrString = isNullOr(isString)

function timestamp(ms: number): string {
  return new Date(ms).toISOString()
}
