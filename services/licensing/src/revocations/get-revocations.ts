import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type {
  GetRevocationsPartRequest,
  GetRevocationsRequest,
  RevocationsPartSchema,
  RevocationsSchema,
} from '@licensing/proto/products'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { LRUCache } from 'lru-cache'
import type { KeyObject } from 'node:crypto'
import { createBatcher } from '@licensing/changes/batcher'
import type { ProductDependencies } from '../dependencies.ts'
import { revocationEntries, segmentEntries } from './revocation-entries.ts'
import { findVersions } from './revocation-queries.ts'
import { partsOf, signatureOf, textOf } from './revocation-text.ts'
import type { UnsignedList } from './revocation-text.ts'
import { checkApplicationId, listLifeSeconds } from '../signing-keys/signing-keys.ts'
import type { KeySet } from '../signing-keys/signing-keys.ts'

interface RevocationLists {
  get(request: GetRevocationsRequest): Promise<MessageInitShape<typeof RevocationsSchema>>
  part(request: GetRevocationsPartRequest): Promise<MessageInitShape<typeof RevocationsPartSchema>>
}

interface SignedList extends UnsignedList {
  signature: string
}

// A list is signed again after a quarter of its life, so that a cached list stays valid for most of its life.
const periodMs = (listLifeSeconds / 4) * 1000
const maxSignatures = 20_000
// Signing needs two copies of the list in memory, with 44 bytes per entry.
const usualMaxEntries = 2 ** 20
const longEntries = 4 * segmentEntries
const maxWaiting = 64
const maxWaitingPerApplication = 16

/**
 * The signed lists of revoked licences. Entries are cached once (`revocationEntries`), and of each signed list only the
 * signature. So a poll costs one look-up of the version, which polls of one moment share, and the text of the answer. A
 * version of a list needs at most some hundred signatures, however many values of `since` are requested (`startOf`). Long
 * lists are signed one at a time, with applications in turn; if too many are waiting, further requests get `unavailable`.
 *
 * If a list has more than `maxEntries`, the answer contains only the first of them. The next poll continues from there.
 */
export function revocationLists(deps: ProductDependencies, maxEntries = usualMaxEntries): RevocationLists {
  const versionOf = createBatcher<string, number>((ids) => findVersions(deps.sql, ids), {
    maxBatchSize: 500,
    slots: 2,
    isTransient: isDatabaseUnavailable,
  })
  const entries = revocationEntries(deps.sql)
  const signed = new LRUCache<string, SignedList>({ max: maxSignatures })
  const signing = new Map<string, Promise<SignedList>>()
  const signOne = createSigning((list, key) => signatureOf(entries, list, key))

  const signOnce = (
    list: Omit<UnsignedList, 'issuedAt'>,
    { signingKey }: KeySet,
    period: number,
  ): Promise<SignedList> => {
    const name = [list.applicationId, list.since ?? 'all', list.end, period, list.kid].join(' ')
    const known = signed.get(name) ?? signing.get(name)
    if (known) return Promise.resolve(known)
    const sign = async () => {
      const unsigned = { ...list, issuedAt: Math.floor(deps.now().getTime() / 1000) }
      const made = { ...unsigned, signature: await signOne(unsigned, signingKey) }
      signed.set(name, made)
      return made
    }
    const made = sign().finally(() => signing.delete(name))
    signing.set(name, made)
    return made
  }

  return {
    async get({ applicationId, since: asked, ifNoneMatch }) {
      checkApplicationId(applicationId)
      const version = await versionOf(applicationId)
      if (asked !== undefined && (asked < 0n || asked > version)) {
        throw invalid('/since', 'must be a previous version of this list')
      }
      const since = asked === undefined ? undefined : Number(asked)
      const end = endOf(since, version, maxEntries)
      const keys = await deps.keys.of(applicationId)
      const period = Math.floor(deps.now().getTime() / periodMs)
      const etag = `"${end}-${since ?? 'all'}-${period}-${keys.kid.slice(0, 8)}"`
      if (matches(ifNoneMatch, etag)) return { version: BigInt(end), etag, notModified: true }
      const start = since === undefined ? 0 : startOf(since, end)
      const unsigned = { applicationId, since: since === undefined ? null : start, start, end, kid: keys.kid }
      const list = await signOnce(unsigned, keys, period)
      const parts = partsOf(list, list.signature, since ?? 0)
      return {
        version: BigInt(end),
        etag,
        notModified: false,
        json: await textOf(entries, list, parts[0]!),
        parts: parts.length,
        list: {
          since: asked,
          start: BigInt(start),
          end: BigInt(end),
          issuedAt: BigInt(list.issuedAt),
          kid: list.kid,
          signature: list.signature,
        },
      }
    },
    async part({ applicationId, list: given, part }) {
      checkApplicationId(applicationId)
      const since = given?.since === undefined ? undefined : Number(given.since)
      const start = Number(given?.start)
      const list: UnsignedList = {
        applicationId,
        since: since === undefined ? null : start,
        start,
        end: Number(given?.end),
        issuedAt: Number(given?.issuedAt),
        kid: given?.kid ?? '',
      }
      const pieces = partsOf(list, given?.signature ?? '', since ?? 0)[part]
      if (!pieces) throw invalid('/part', 'must be a part of the list')
      return { json: await textOf(entries, list, pieces) }
    },
  }
}

/** Signs long lists one after the other, with applications in turn. */
function createSigning(sign: (list: UnsignedList, key: KeyObject) => Promise<string>) {
  interface Job {
    list: UnsignedList
    key: KeyObject
  }
  const singly = { maxBatchSize: 1, isTransient: () => true }
  const signNext = createBatcher<Job, string>(async ([job]) => [await sign(job!.list, job!.key)], singly)
  const signForApplication = createBatcher<Job, string>(async ([job]) => [await signNext(job!)], {
    ...singly,
    queueOf: ({ list }) => list.applicationId,
  })
  const waiting = new Map<string, number>()
  let allWaiting = 0
  return async (list: UnsignedList, key: KeyObject): Promise<string> => {
    if (list.end - list.start <= longEntries) return sign(list, key)
    const { applicationId } = list
    const own = waiting.get(applicationId) ?? 0
    if (own >= maxWaitingPerApplication || allWaiting >= maxWaiting) {
      throw new ServiceError('unavailable', 'too many long revocation lists are being signed: try again')
    }
    waiting.set(applicationId, own + 1)
    allWaiting += 1
    try {
      return await signForApplication({ list, key })
    } finally {
      allWaiting -= 1
      const left = waiting.get(applicationId)! - 1
      if (left === 0) waiting.delete(applicationId)
      else waiting.set(applicationId, left)
    }
  }
}

/** The last version in an answer: the latest, unless the signed list would have more than `max` entries. */
function endOf(since: number | undefined, version: number, max: number): number {
  if (version <= max) return version
  // `startOf` may add as many entries before `since`.
  return since === undefined ? max : Math.min(version, since + max / 2)
}

const maxExact = 256

/**
 * The version from which the signed list for `since` starts: `since` itself if few versions follow it, otherwise an earlier
 * round number. Each version has one licence, so a list is at most twice as long as requested. Entries before `since` are
 * not in the answer's `revoked`.
 *
 * @example startOf(34_000, 100_000) // 0: the whole list
 */
function startOf(since: number, version: number): number {
  const distance = version - since
  if (distance <= maxExact) return since
  const step = 2 ** Math.floor(Math.log2(distance))
  return Math.floor(since / step) * step
}

/** RFC 9110: a list of entity tags, compared weakly, or `*`. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  return (ifNoneMatch ?? '').split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
