import {
  admit,
  correct,
  firstObservation,
  isAhead,
  mergeTimes,
  notBefore,
  observe,
  type SeenTime,
} from './time.ts'
import type { Keys, RevocationList, TokenClaims } from './trust.ts'

/**
 * The verified knowledge of an installation: a value, which never changes. Three functions make a new one:
 * `merge` joins two processes' knowledge, `apply` adds an answer of the service, `observed` reads the clock.
 * Times are in milliseconds since 1970 UTC.
 */
export interface Held {
  readonly licence: Licence
  /** The keys that verify texts of the service. */
  readonly keys: Keys | null
  /** The known revocations, by licence id. The store keeps the entry of its token's licence. */
  readonly revocations: Readonly<Record<string, Revocations>>
  readonly time: SeenTime
}

/** The part that is replaced as a whole, by the process that changed it last. */
export interface Licence {
  /** How often a process has replaced this part: the higher number is newer. 0: an empty store. */
  readonly revision: number
  readonly key: string | null
  /** The legacy key that was exchanged for `key`. */
  readonly legacyKey: string | null
  /** The latest token, even if it has ended. */
  readonly token: Token | null
  /** The reason with which the service last refused a token. */
  readonly refusal: string | null
  /** The nonce with which an offline file may set the time back; null if no file may. */
  readonly nonce: string | null
}

export interface Token {
  readonly jws: string
  readonly claims: TokenClaims
  /** The key set of the offline file that it came in; null for a token of the service. */
  readonly fileKeys: Keys | null
  /** The activation held a lease of a floating licence when the token was issued. */
  readonly floating: boolean
  /** The fingerprint that it was issued to, if this machine has another one since; else null. */
  readonly formerFingerprint: string | null
}

export interface Revocations {
  /** The list that was last accepted. */
  readonly list: HeldList | null
  /** An authentic list that names the licence: it is revoked, and no later answer changes that. */
  readonly namedBy: string | null
}

/** A list, and what the service said of it. After its `expiresAt` it is outdated, even if an unsigned answer confirms it. */
export interface HeldList extends RevocationList {
  readonly etag: string | null
  /** The `since` of the request that the ETag answers. */
  readonly etagSince: number | null
  /** When the service last said that this is the latest list; null before it was read to its end. */
  readonly checkedAt: number | null
}

export const NO_LICENCE: Licence = {
  revision: 0,
  key: null,
  legacyKey: null,
  token: null,
  refusal: null,
  nonce: null,
}

/** The knowledge of a client that was given a licence key, or none. */
export function emptyHeld(key: string | null, local: number): Held {
  return { licence: { ...NO_LICENCE, key }, keys: null, revocations: {}, time: firstObservation(local) }
}

/** The token of this machine; null if there is none. */
export function tokenOf({ licence: { token } }: Held): Token | null {
  return token?.formerFingerprint === null ? token : null
}

/** The known revocations of the token's licence. */
export function revocationsOf(held: Held): Revocations {
  const id = tokenOf(held)?.claims.licenceId
  return (id !== undefined && held.revocations[id]) || { list: null, namedBy: null }
}

/** Reads the local clock. */
export function observed(held: Held, local: number): Held {
  return { ...held, time: observe(held.time, local) }
}

/**
 * Joins the knowledge of two processes that share a store. Commutative, associative and idempotent, so that neither the
 * order of saves nor their number matters. Both times must have been continued to the same local clock.
 */
export function merge(mine: Held, theirs: Held): Held {
  return {
    licence: mergeLicences(mine.licence, theirs.licence),
    keys: mergeKeys(mine.keys, theirs.keys),
    revocations: mergeRevocations(mine.revocations, theirs.revocations),
    time: mergeTimes(mine.time, theirs.time),
  }
}

function mergeLicences(mine: Licence, theirs: Licence): Licence {
  const order = compare(rankOf(mine), rankOf(theirs))
  if (order !== 0) return order > 0 ? mine : theirs
  return {
    ...mine,
    key: later(mine.key, theirs.key),
    legacyKey: later(mine.legacyKey, theirs.legacyKey),
    refusal: later(mine.refusal, theirs.refusal),
    nonce: later(mine.nonce, theirs.nonce),
  }
}

/** The higher rank is newer. If two processes replaced the licence at once, an activation that was freed stays freed. */
function rankOf({ revision, token }: Licence): Rank {
  if (token === null) return [revision, revision === 0 ? 0 : 2]
  const { jws, claims, fileKeys, floating, formerFingerprint } = token
  const text = JSON.stringify([jws, fileKeys?.jws, floating, formerFingerprint])
  return [revision, 1, claims.issuedAt, claims.expiresAt, text]
}

/** The later set. If both are of one second, the set with more keys, because a rotation adds a key. */
export function mergeKeys(mine: Keys | null, theirs: Keys | null): Keys | null {
  return later(mine, theirs, (keys) => [keys.issuedAt, keys.keys.length, JSON.stringify(keys)])
}

function mergeRevocations(mine: Held['revocations'], theirs: Held['revocations']): Held['revocations'] {
  const merged = { ...mine }
  for (const [id, { list, namedBy }] of Object.entries(theirs)) {
    const held = mine[id]
    merged[id] = {
      list: mergeLists(held?.list ?? null, list),
      namedBy: later(held?.namedBy ?? null, namedBy),
    }
  }
  return merged
}

function mergeLists(mine: HeldList | null, theirs: HeldList | null): HeldList | null {
  if (mine?.jws !== theirs?.jws) return later(mine, theirs, (list) => [list.version, list.issuedAt, list.jws])
  return later(mine, theirs, (list) => [list.checkedAt ?? -Infinity, list.etagSince ?? -1, list.etag ?? ''])
}

type Rank = readonly (number | string)[]

/** The value with the higher rank. Null is the lowest, and a text is its own rank. */
function later<T>(mine: T | null, theirs: T | null, rank = (value: T): Rank => [String(value)]): T | null {
  if (mine === null || theirs === null) return mine ?? theirs
  return compare(rank(mine), rank(theirs)) >= 0 ? mine : theirs
}

/** Compares two ranks entry by entry: positive if `one` is higher. */
function compare(one: Rank, other: Rank): number {
  const at = one.findIndex((entry, index) => entry !== other[index])
  return at < 0 ? 0 : (one[at] ?? 0) > (other[at] ?? 0) ? 1 : -1
}

/** Adds what the store has. The clock has been read before. */
export function absorb(mine: Held, stored: Held): Held {
  return settle(merge(mine, { ...stored, time: admit(stored.time, mine.time) }))
}

/**
 * Makes the parts of a value that was read or changed agree: the time is not before what the service has signed, and nothing
 * was confirmed in the future. A former time may have been ahead.
 */
function settle(held: Held): Held {
  const { list } = revocationsOf(held)
  const time = notBefore(
    held.time,
    Math.max(tokenOf(held)?.claims.issuedAt ?? -Infinity, list?.issuedAt ?? -Infinity),
  )
  const keys =
    held.keys?.jws === null ? { ...held.keys, issuedAt: Math.min(held.keys.issuedAt, time.time) } : held.keys
  const settled = { ...held, keys, time }
  if (list === null || list.checkedAt === null) return settled
  return withRevocations(settled, { list: { ...list, checkedAt: Math.min(list.checkedAt, time.time) } })
}

/** An answer of the service, or an offline file, that was verified. */
export type Verified =
  /** A token. `nonce` is the one of the request; null if there was none. `licenceKey` is that of a new trial. */
  | {
      readonly kind: 'token'
      readonly token: Token
      readonly nonce: string | null
      readonly licenceKey?: string | undefined
    }
  /** Null ends the last refusal. */
  | { readonly kind: 'refusal'; readonly reason: string | null }
  /** The service freed the activation, or ended its lease. */
  | { readonly kind: 'freed' }
  /** A legacy key was exchanged. */
  | { readonly kind: 'exchange'; readonly legacyKey: string; readonly licenceKey: string }
  | { readonly kind: 'keys'; readonly keys: Keys }
  | {
      readonly kind: 'list'
      readonly list: RevocationList
      readonly etag: string | null
      /** The `since` of the request. */
      readonly since: number | null
    }
  /** The list held is the latest. */
  | { readonly kind: 'list_unchanged' }

/** Adds an answer. The clock has been read before. */
export function apply(held: Held, answer: Verified): Held {
  const { licence } = held
  switch (answer.kind) {
    case 'token': {
      const time = timeAfter(held, answer.token, answer.nonce)
      const key = answer.licenceKey ?? licence.key
      return settle({ ...replaced(held, { key, token: answer.token, refusal: null, nonce: null }), time })
    }
    case 'refusal':
      return { ...held, licence: { ...licence, refusal: answer.reason } }
    case 'freed':
      return replaced(held, { token: null, refusal: null })
    case 'exchange':
      return replaced(held, { legacyKey: answer.legacyKey, key: answer.licenceKey, refusal: null })
    case 'keys':
      return { ...held, keys: answer.keys }
    case 'list':
      return applyList(held, answer)
    case 'list_unchanged': {
      const { list } = revocationsOf(held)
      return list ? withRevocations(held, { list: { ...list, checkedAt: held.time.time } }) : held
    }
  }
}

function replaced(held: Held, change: Partial<Licence>): Held {
  return { ...held, licence: { ...held.licence, ...change, revision: held.licence.revision + 1 } }
}

/**
 * A token that answers this request sets the time, even if the clock is ahead, so that a clock with a constant error does no
 * harm. A file does that only with the nonce of the store, and sets it to the local clock, because the file may be old.
 * Any other token only shows that it is not earlier.
 */
function timeAfter(held: Held, { claims, fileKeys }: Token, nonce: string | null): SeenTime {
  if (nonce === null || claims.nonce !== nonce) return notBefore(held.time, claims.issuedAt)
  const now = fileKeys ? held.time.local : claims.issuedAt
  const signed = [
    claims.issuedAt,
    tokenOf(held)?.claims.issuedAt ?? 0,
    revocationsOf(held).list?.issuedAt ?? 0,
  ]
  return correct(held.time, Math.max(now, ...signed))
}

function applyList(held: Held, { list, etag, since }: Verified & { kind: 'list' }): Held {
  const { list: current } = revocationsOf(held)
  const licenceId = tokenOf(held)?.claims.licenceId
  const named = licenceId !== undefined && list.revoked.includes(licenceId)
  const known = named ? withRevocations(held, { namedBy: list.jws }) : held
  if (acceptanceOf(list, held) !== 'accepted') return known
  const time = notBefore(held.time, list.issuedAt)
  const checkedAt = list.more ? (current?.checkedAt ?? null) : time.time
  return { ...withRevocations(known, { list: { ...list, etag, etagSince: since, checkedAt } }), time }
}

/** Largest accepted difference between the service's clock and the trusted time. */
const TOLERANCE_MS = 300_000

/**
 * Whether an authentic list may replace the current one. A licence that it names is revoked in any case: a revocation is
 * permanent, so an old list proves it as well as a new one.
 */
export function acceptanceOf(
  list: RevocationList,
  held: Held,
): 'accepted' | 'list_expired' | 'list_outdated' | 'list_gap' {
  const current = revocationsOf(held).list?.version ?? null
  if (list.expiresAt + TOLERANCE_MS <= Math.max(held.time.time, list.issuedAt)) return 'list_expired'
  if (current !== null && list.version < current) return 'list_outdated'
  if (list.since !== null && (current === null || list.since > current)) return 'list_gap'
  return 'accepted'
}

function withRevocations(held: Held, change: Partial<Revocations>): Held {
  const id = tokenOf(held)?.claims.licenceId
  if (id === undefined) return held
  return { ...held, revocations: { ...held.revocations, [id]: { ...revocationsOf(held), ...change } } }
}

/**
 * Adds a nonce if the next offline file may set the time back: nothing is granted, and the trusted time is ahead of the local
 * clock. So an older file never sets the time back.
 */
export function withFileNonce(held: Held, newNonce: () => string): Held {
  const expiresAt = tokenOf(held)?.claims.expiresAt ?? -Infinity
  const isNeeded = held.licence.nonce === null && isAhead(held.time) && held.time.time >= expiresAt
  return isNeeded ? { ...held, licence: { ...held.licence, nonce: newNonce() } } : held
}
