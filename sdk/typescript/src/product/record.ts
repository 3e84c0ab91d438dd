import { emptyHeld, mergeKeys, NO_LICENCE, revocationsOf, tokenOf } from './held.ts'
import type { Held, HeldList, Licence, Token } from './held.ts'
import { readLicenceKey } from './licence-key.ts'
import { isCount, isNullOr, isObject, isString, isTimestamp } from './shape.ts'
import type { AbsenceReason } from './reasons.ts'
import { admit, mergeTimes, type SeenTime } from './time.ts'
import { isKeySet, readList, readStoredKeys, readStoredToken } from './trust.ts'
import type { Identity, Keys, KeySet, RevocationList } from './trust.ts'

/** The text of a store: JSON with these fields. It is not trusted, and everything in it is verified again. */
interface StoredRecord {
  readonly format: 1
  readonly app_id: string
  readonly licence_key: string | null
  readonly legacy_key: string | null
  readonly fingerprint: string
  readonly token: string | null
  readonly floating: boolean
  readonly refusal: string | null
  readonly signed_keys: string | null
  readonly jwks: KeySet | null
  readonly jwks_at: string
  readonly file_keys: string | null
  readonly revocations: StoredRevocations | null
  readonly seen: StoredTime
  readonly revision: number
  readonly nonce: string | null
}

interface StoredRevocations {
  readonly list: string | null
  readonly named_by: string | null
  readonly etag: string | null
  readonly etag_since: number | null
  readonly checked_at: string
}

interface StoredTime {
  readonly time: string
  readonly local: string
  readonly turned_back: boolean
  readonly corrections: number
}

type Fields<Shape> = { readonly [Name in keyof Shape]: (value: unknown) => boolean }

const isNullOrString = isNullOr(isString)
const isBoolean = (value: unknown): boolean => typeof value === 'boolean'

/** Which value each field may have. A record with another one is ignored as a whole. */
export const recordFields: Fields<StoredRecord> = {
  format: (value) => value === 1,
  app_id: isString,
  licence_key: isNullOrString,
  legacy_key: isNullOrString,
  fingerprint: isString,
  token: isNullOrString,
  floating: isBoolean,
  refusal: isNullOrString,
  signed_keys: isNullOrString,
  jwks: isNullOr(isKeySet),
  jwks_at: isTimestamp,
  file_keys: isNullOrString,
  revocations: (value) => value === null || hasFields(value, revocationFields),
  seen: (value) => hasFields(value, timeFields),
  revision: isCount,
  nonce: isNullOrString,
}

export const revocationFields: Fields<StoredRevocations> = {
  list: isNullOrString,
  named_by: isNullOrString,
  etag: isNullOrString,
  etag_since: isNullOr((value): value is number => typeof value === 'number'),
  checked_at: isTimestamp,
}

export const timeFields: Fields<StoredTime> = {
  time: isTimestamp,
  local: isTimestamp,
  turned_back: isBoolean,
  corrections: isCount,
}

/** The fields that may be absent. */
export const recordDefaults = {
  signed_keys: null,
  file_keys: null,
  floating: false,
  jwks_at: timestamp(0),
  revision: 0,
  nonce: null,
} as const satisfies Partial<StoredRecord>

export const timeDefaults = { turned_back: false, corrections: 0 } as const satisfies Partial<StoredTime>

function hasFields<Shape>(value: unknown, fields: Fields<Shape>): boolean {
  if (!isObject(value)) return false
  return Object.entries<(value: unknown) => boolean>(fields).every(([name, check]) => check(value[name]))
}

function parse(text: string): StoredRecord | null {
  try {
    const value: unknown = JSON.parse(text)
    if (!isObject(value)) return null
    const seen = isObject(value['seen']) ? { ...timeDefaults, ...value['seen'] } : null
    const record = { ...recordDefaults, ...value, seen }
    return hasFields(record, recordFields) ? (record as unknown as StoredRecord) : null
  } catch {
    return null
  }
}

/** The content of the store, as read for this installation. */
export interface Found {
  /** The verified content, as far as it is for this installation. */
  readonly held: Held
  /** Why the store has no token for this installation; null if it has, or if it never had one. */
  readonly absence: AbsenceReason | null
  /** The revision of a record of another licence key or machine, which must not be overwritten by an older one. */
  readonly foreignRevision: number | null
}

/** Reads and verifies the text of the store. `mine` is the knowledge so far, after the clock was read. */
export async function readRecord(text: string | null, mine: Held, identity: Identity): Promise<Found> {
  const nothing = { held: emptyHeld(identity.licenceKey, mine.time.local), foreignRevision: null }
  const record = text === null ? null : parse(text)
  if (!record) return { ...nothing, absence: text === null ? null : 'store_corrupt' }
  if (record.app_id !== identity.appId) return { ...nothing, absence: null }

  const time = readTime(record.seen)
  const now = mergeTimes(mine.time, admit(time, mine.time)).time
  const storedKeys = await readStoredKeys(record, identity)
  const keys = mergeKeys(mine.keys, storedKeys)
  const { licence, ...found } = await readLicence(record, mine, identity, keys, now)
  const lists = await readLists(record.revocations, keys, identity.appId)
  const revocations = revocationsIn(record.revocations, lists, licence.token, mine)
  return { ...found, held: { licence, keys: storedKeys, revocations, time } }
}

type FoundLicence = Omit<Found, 'held'> & { readonly licence: Licence }

/** The licence of a record. That of another key or machine is not ours, unless this machine has none yet. */
async function readLicence(
  record: StoredRecord,
  mine: Held,
  identity: Identity,
  keys: Keys | null,
  now: number,
): Promise<FoundLicence> {
  const { revision, token: jws, fingerprint, floating, refusal, nonce } = record
  const none = { ...NO_LICENCE, key: identity.licenceKey }
  if (
    identity.licenceKey !== null &&
    record.licence_key !== null &&
    !isSameKey(identity.licenceKey, record.licence_key)
  )
    return { licence: none, absence: 'licence_key_changed', foreignRevision: revision }

  const key = identity.licenceKey ?? record.licence_key
  const licence = { revision, key, legacyKey: record.legacy_key, token: null, refusal: null, nonce }
  if (jws === null) return { licence, absence: null, foreignRevision: null }
  const isOurs = fingerprint === identity.fingerprint
  const read = await readStoredToken({ ...record, token: jws }, keys, identity, now)
  if (!read) {
    return { licence: tokenOf(mine) ? none : licence, absence: 'store_corrupt', foreignRevision: null }
  }
  const token = { jws, ...read, floating, formerFingerprint: isOurs ? null : fingerprint }
  if (isOurs) return { licence: { ...licence, token, refusal }, absence: null, foreignRevision: null }
  if (tokenOf(mine)) return { licence: none, absence: null, foreignRevision: revision }
  return { licence: { ...licence, token }, absence: 'fingerprint_changed', foreignRevision: null }
}

/** The service reads all forms of a licence key as one. */
function isSameKey(one: string, other: string): boolean {
  const key = readLicenceKey(one)
  return one === other || (key !== undefined && key === readLicenceKey(other))
}

/** The authentic lists of a record. Their keys may have ended, because a licence that a list names stays revoked. */
async function readLists(
  stored: StoredRevocations | null,
  keys: Keys | null,
  appId: string,
): Promise<readonly RevocationList[]> {
  const texts = [stored?.named_by, stored?.list].filter(isString)
  const lists = await Promise.all(texts.map((jws) => readList(jws, keys, appId)))
  return lists.filter((list): list is RevocationList => !isString(list))
}

/** A list that names a licence counts for that, whatever else the record says; the list held is for the record's licence. */
function revocationsIn(
  stored: StoredRevocations | null,
  lists: readonly RevocationList[],
  token: Token | null,
  mine: Held,
): Held['revocations'] {
  const ids = [token, tokenOf(mine)].filter((of) => of !== null).map(({ claims }) => claims.licenceId)
  const entries = ids.map((id) => {
    const namedBy = lists.find(({ revoked }) => revoked.includes(id))?.jws ?? null
    const list = id === token?.claims.licenceId ? lists.find(({ jws }) => jws === stored?.list) : undefined
    return [id, { namedBy, list: stored && list ? heldList(list, stored) : null }] as const
  })
  return Object.fromEntries(entries)
}

function heldList(list: RevocationList, stored: StoredRevocations): HeldList {
  const { jws, version, more, issuedAt, expiresAt } = list
  const { etag, etag_since: etagSince } = stored
  return {
    jws,
    version,
    more,
    issuedAt,
    expiresAt,
    etag,
    etagSince,
    checkedAt: Date.parse(stored.checked_at),
  }
}

function readTime({ time, local, turned_back: turnedBack, corrections }: StoredTime): SeenTime {
  return { time: Date.parse(time), local: Date.parse(local), turnedBack, corrections }
}

/** The text that the store keeps. */
export function writeRecord(held: Held, identity: Identity): string {
  const { licence, keys, time } = held
  const { token } = licence
  const record: StoredRecord = {
    format: 1,
    app_id: identity.appId,
    licence_key: licence.key,
    legacy_key: licence.legacyKey,
    fingerprint: token?.formerFingerprint ?? identity.fingerprint,
    token: token?.jws ?? null,
    floating: token?.floating ?? false,
    refusal: tokenOf(held) && licence.refusal,
    signed_keys: keys?.jws ?? null,
    jwks: keys?.jws === null ? { keys: keys.keys } : null,
    jwks_at: timestamp(keys?.jws === null ? keys.issuedAt : 0),
    file_keys: token?.fileKeys?.jws ?? null,
    revocations: writeRevocations(held),
    seen: {
      time: timestamp(time.time),
      local: timestamp(time.local),
      turned_back: time.turnedBack,
      corrections: time.corrections,
    },
    revision: licence.revision,
    nonce: licence.nonce,
  }
  return JSON.stringify(record)
}

function writeRevocations(held: Held): StoredRevocations | null {
  const { list, namedBy } = revocationsOf(held)
  if (list === null && namedBy === null) return null
  return {
    list: list?.jws ?? null,
    named_by: namedBy,
    etag: list?.etag ?? null,
    etag_since: list?.etagSince ?? null,
    checked_at: timestamp(list?.checkedAt ?? held.time.time),
  }
}

function timestamp(ms: number): string {
  return new Date(ms).toISOString()
}
