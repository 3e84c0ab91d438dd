import {
  assert,
  boolean,
  constantFrom,
  dictionary,
  integer,
  option,
  property,
  record,
  tuple,
} from 'fast-check'
import { describe, expect, it } from 'vitest'
import { absorb, apply, merge, revocationsOf, tokenOf } from './held.ts'
import type { Held, HeldList, Licence, Token, Verified } from './held.ts'
import type { Keys, TokenClaims } from './trust.ts'

/** Few different values, so that two drawn ones are often of the same licence, revision, second or version. */
const few = integer({ min: 0, max: 2 })
const licenceIds = constantFrom('lic_1', 'lic_2')
const orNull = { nil: null }

/** A signed text is one value: the same text has the same content. */
const tokens = record({
  licenceId: licenceIds,
  issuedAt: few,
  nonce: option(constantFrom('n1', 'n2'), orNull),
  floating: boolean(),
  former: option(constantFrom('machine-0'), orNull),
  fileKeys: option(few, orNull),
}).map(({ licenceId, issuedAt, nonce, floating, former, fileKeys }): Token => {
  const claims = { licenceId, issuedAt, expiresAt: 10 + issuedAt, nonce } as TokenClaims
  const keys = fileKeys === null ? null : keySet(fileKeys, 1)
  return { jws: JSON.stringify(claims), claims, fileKeys: keys, floating, formerFingerprint: former }
})

function keySet(issuedAt: number, count: number): Keys {
  const keys = Array.from({ length: count }, (_, at) => ({ kid: `k${at}` }))
  return { jws: `${issuedAt} ${count}`, keys, issuedAt, expiresAt: issuedAt + 30 }
}

const texts = option(constantFrom('a', 'b'), orNull)

// A client that has a token has a revision: 0 is an empty store.
const licences = record<Licence>({
  revision: few,
  key: texts,
  legacyKey: texts,
  token: option(tokens, orNull),
  refusal: texts,
  nonce: texts,
})

const lists = tuple(few, few, option(few, orNull), texts, option(few, orNull)).map(
  ([version, issuedAt, etagSince, etag, checkedAt]): HeldList => {
    const more = version === 1
    const content = { version, since: null, revoked: [], issuedAt, expiresAt: issuedAt + 20, more }
    return { jws: JSON.stringify(content), ...content, etag, etagSince, checkedAt }
  },
)

const helds = record<Held>({
  licence: licences,
  keys: option(
    tuple(few, few).map(([issuedAt, count]) => keySet(issuedAt, count)),
    orNull,
  ),
  revocations: dictionary(licenceIds, record({ list: option(lists, orNull), namedBy: texts })),
  time: record({ time: few, local: few, turnedBack: boolean(), corrections: few }),
})

describe('the join of what two processes know', () => {
  it('is the same in whatever order they save, and however often', () => {
    assert(
      property(helds, helds, (one, other) => {
        expect(merge(one, other)).toEqual(merge(other, one))
        expect(merge(merge(one, other), other)).toEqual(merge(one, other))
        expect(merge(one, one)).toEqual(one)
      }),
      { numRuns: 500 },
    )
  })

  it('is the same however three of them meet', () => {
    assert(
      property(helds, helds, helds, (one, two, three) => {
        expect(merge(merge(one, two), three)).toEqual(merge(one, merge(two, three)))
      }),
      { numRuns: 1000 },
    )
  })

  it('keeps a revocation of either, whatever else the other knows', () => {
    assert(
      property(helds, helds, licenceIds, (one, other, id) => {
        const revoked = [one, other].some(({ revocations }) => revocations[id]?.namedBy)
        expect(merge(one, other).revocations[id]?.namedBy ?? null).toEqual(
          revoked ? expect.any(String) : null,
        )
      }),
    )
  })

  it('has the keys, the list and the licence that are later, and never a lower revision', () => {
    assert(
      property(helds, helds, licenceIds, (one, other, id) => {
        const merged = merge(one, other)
        const both = [one, other]
        const highest = (of: (held: Held) => number | undefined) =>
          Math.max(...both.map((held) => of(held) ?? -1))
        expect(merged.licence.revision).toBe(highest(({ licence }) => licence.revision))
        expect(merged.keys?.issuedAt ?? -1).toBe(highest(({ keys }) => keys?.issuedAt))
        expect(merged.time.corrections).toBe(highest(({ time }) => time.corrections))
        expect(merged.revocations[id]?.list?.version ?? -1).toBe(
          highest(({ revocations }) => revocations[id]?.list?.version),
        )
      }),
    )
  })

  it('has no token if one process freed the activation while another renewed it', () => {
    assert(
      property(helds, tokens, (held, token) => {
        const freed = apply(held, { kind: 'freed' })
        const renewed = apply(held, { kind: 'token', token, nonce: null })
        expect(merge(freed, renewed).licence.token).toBe(null)
      }),
    )
  })
})

const answers = constantFrom('token', 'freed', 'exchange', 'refusal', 'list').chain((kind) =>
  tuple(tokens, licenceIds, few).map(([token, id, version]): Verified => {
    const list = { jws: `list ${id}`, version: 3 + version, since: null, revoked: [id], more: false }
    switch (kind) {
      case 'token':
        return { kind, token: { ...token, formerFingerprint: null }, nonce: null }
      case 'exchange':
        return { kind, legacyKey: 'OLD', licenceKey: 'NEW' }
      case 'refusal':
        return { kind, reason: 'suspended' }
      case 'list':
        return {
          kind,
          list: { ...list, issuedAt: 3, expiresAt: 50 },
          etag: null,
          since: null,
        }
      default:
        return { kind: 'freed' }
    }
  }),
)

describe('an answer', () => {
  it('prevails over what was known before, when that comes back from the store', () => {
    assert(
      property(helds, answers, (before, answer) => {
        // The text of the store has no refusal without a token, and only one of a token of this machine.
        const given = { ...before, licence: { ...before.licence, refusal: null } }
        const stored = absorb(given, given)
        const after = apply(stored, answer)
        expect(absorb(after, stored)).toEqual(after)
      }),
      { numRuns: 500 },
    )
  })

  it('never takes back a revocation of the licence', () => {
    assert(
      property(helds, answers, (before, answer) => {
        const { namedBy } = revocationsOf(before)
        const after = apply(before, answer)
        const isSame = tokenOf(after)?.claims.licenceId === tokenOf(before)?.claims.licenceId
        if (namedBy !== null && isSame) expect(revocationsOf(after).namedBy).not.toBe(null)
      }),
    )
  })
})
