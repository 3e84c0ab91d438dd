import { emptyHeld, mergeKeys, NO_LICENCE, revocationsOf, tokenOf } from './held.ts'
import type { Held, HeldList, Licence, Token } from './held.ts'
import type { AbsenceReason } from './reasons.ts'
import {
  hasFields,
  isBoolean,
  isCount,
  isNullOr,
  isObject,
  isString,
  isTimestamp,
  readTimestamp,
} from './shape.ts'
import type { Check, Checked } from './shape.ts'
import { admit, mergeTimes, type SeenTime } from './time.ts'
import { isKeySet, readList, readStoredKeys, readStoredToken } from './trust.ts'
import type { Identity, Keys, RevocationList } from './trust.ts'

/** The text of a store: JSON with these fields. It is not trusted, and everything in it is verified again. */
type StoredRecord = Checked<typeof recordFields>
type StoredRevocations = Checked<typeof revocationFields>
type StoredTime = Checked<typeof timeFields>

const isText = isNullOr(isString)

export const revocationFields = {
  list: isText,
  named_by: isText,
  etag: isText,
  etag_since: isNullOr((value): value is number => typeof value === 'number'),
  checked_at: isTimestamp,
}

export const timeFields = {
  time: isTimestamp,
  local: isTimestamp,
  turned_back: isBoolean,
  corrections: isCount,
}

/** Which value each field may have. A record with another one is ignored as a whole. */
export const recordFields = {
  format: ((value) => value === 1) as Check<1>,
  app_id: isString,
  licence_key: isText,
  legacy_key: isText,
  fingerprint: isString,
  token: isText,
  floating: isBoolean,
  refusal: isText,
  signed_keys: isText,
  jwks: isNullOr(isKeySet),
  jwks_at: isTimestamp,
  file_keys: isText,
  revocations: isNullOr(hasFields(revocationFields)),
  seen: hasFields(timeFields),
  revision: isCount,
  nonce: isText,
}

/** The fields that may be absent. */
export const recordDefaults = {
  signed_keys: null,
  file_keys: null,
  floating: false,
  jwks_at: timestamp(0),
  revision: 0,
  nonce: null,
} satisfies Partial<StoredRecord>

export const timeDefaults = { turned_back: false, corrections: 0 } satisfies Partial<StoredTime>

const isRecord = hasFields(recordFields)

function parse(text: string): StoredRecord | null {
  try {
    const value: unknown = JSON.parse(text)
    if (!isObject(value)) return null
    const seen = isObject(value['seen']) ? { ...timeDefaults, ...value['seen'] } : null
    const record = { ...recordDefaults, ...value, seen }
    return isRecord(record) ? record : null
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
  const record = text === null ? null : parse(text)
  if (!record || record.app_id !== identity.appId) {
    const absence = text === null || record ? null : 'store_corrupt'
    return { held: emptyHeld(identity.licenceKey, mine.time.local), absence, foreignRevision: null }
  }
  const time = readTime(record.seen)
  const now = mergeTimes(mine.time, admit(time, mine.time)).time
  const storedKeys = await readStoredKeys(record, identity)
  const keys = mergeKeys(mine.keys, storedKeys)
  const { licence, ...found } = await readLicence(record, mine, identity, keys, now)
  const revocations = await readRevocations(record.revocations, licence.token, mine, keys, identity.appId)
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
  const key = identity.licenceKey ?? record.licence_key
  if (key !== null && record.licence_key !== null && !isSameKey(key, record.licence_key))
    return { licence: none, absence: 'licence_key_changed', foreignRevision: revision }

  const ours = { absence: null, foreignRevision: null }
  const licence = { revision, key, legacyKey: record.legacy_key, token: null, refusal: null, nonce }
  if (jws === null) return { ...ours, licence }
  const read = await readStoredToken({ ...record, token: jws }, keys, identity, now)
  const hasToken = tokenOf(mine) !== null
  if (!read) return { ...ours, licence: hasToken ? none : licence, absence: 'store_corrupt' }
  if (fingerprint === identity.fingerprint) {
    return {
      ...ours,
      licence: { ...licence, token: { jws, ...read, floating, formerFingerprint: null }, refusal },
    }
  }
  if (hasToken) return { licence: none, absence: null, foreignRevision: revision }
  const token = { jws, ...read, floating, formerFingerprint: fingerprint }
  return { ...ours, licence: { ...licence, token }, absence: 'fingerprint_changed' }
}

/** Only letters and digits of a licence key count, and letters that Crockford's base 32 lacks are the digits that they resemble. */
function isSameKey(one: string, other: string): boolean {
  const read = (key: string) =>
    key
      .replace(/[^0-9a-z]/gi, '')
      .replace(/o/gi, '0')
      .replace(/[il]/gi, '1')
      .toUpperCase()
  return read(one) === read(other)
}

/**
 * The authentic lists of a record. Their keys may have ended, because a licence that a list names stays revoked, whatever else
 * the record says; the list held is for the record's licence.
 */
async function readRevocations(
  stored: StoredRevocations | null,
  token: Token | null,
  mine: Held,
  keys: Keys | null,
  appId: string,
): Promise<Held['revocations']> {
  if (stored === null) return {}
  const texts = [stored.named_by, stored.list].filter(isString)
  const read = await Promise.all(texts.map((jws) => readList(jws, keys, appId)))
  const lists = read.filter((list): list is RevocationList => !isString(list))
  const current = lists.find(({ jws }) => jws === stored.list)
  const list: HeldList | null = current
    ? {
        ...current,
        etag: stored.etag,
        etagSince: stored.etag_since,
        checkedAt: readTimestamp(stored.checked_at),
      }
    : null
  const ids = [token, tokenOf(mine)].filter((of) => of !== null).map(({ claims }) => claims.licenceId)
  const entries = ids.map((id) => {
    const namedBy = lists.find(({ revoked }) => revoked.includes(id))?.jws ?? null
    return [id, { namedBy, list: id === token?.claims.licenceId ? list : null }] as const
  })
  return Object.fromEntries(entries)
}

function readTime({ time, local, turned_back: turnedBack, corrections }: StoredTime): SeenTime {
  return { time: readTimestamp(time), local: readTimestamp(local), turnedBack, corrections }
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
