import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import type { GetRevocationsRequest, RevocationsSchema } from '@licensing/proto/products'
import { CompactSign } from 'jose'
import { LRUCache } from 'lru-cache'
import { checkApplicationId } from './authenticate.ts'
import type { ProductDependencies } from './dependencies.ts'
import { algorithm } from './new-signing-key.ts'
import { findRevoked, findVersion } from './revocation-queries.ts'
import { listLifeSeconds } from './signing-keys.ts'
import type { KeySet } from './signing-keys.ts'

type Answer = MessageInitShape<typeof RevocationsSchema>

// A list is signed again after a quarter of its life, so that what a cache holds stays good for the rest of it.
const periodMs = (listLifeSeconds / 4) * 1000
const mostKept = 500_000

/**
 * The signed list of revoked licences. A list is built and signed once for each version that it starts from and ends
 * at, and kept; a poll that finds nothing new costs one look-up of the version. Where it would be long it starts from
 * one of few versions (`startOf`), so that no number of different `since` signs more than some hundred lists; what it
 * has from before `since` is not in `revoked`.
 */
export function revocationLists(
  deps: ProductDependencies,
): (request: GetRevocationsRequest) => Promise<Answer> {
  const kept = new LRUCache<string, Answer>({
    maxSize: mostKept,
    sizeCalculation: ({ revoked }) => 1 + revoked!.length,
  })
  const building = new Map<string, Promise<Answer>>()
  const buildOnce = (name: string, build: () => Promise<Answer>): Promise<Answer> => {
    const begun = building.get(name)
    if (begun) return begun
    const list = build().finally(() => building.delete(name))
    building.set(name, list)
    return list
  }
  return async ({ applicationId, since, ifNoneMatch }) => {
    checkApplicationId(applicationId)
    const version = await findVersion(deps.sql, applicationId)
    if (since !== undefined && (since < 0n || since > version)) {
      throw invalid('/since', 'must be a previous version of this list')
    }
    const keys = await deps.keys.of(applicationId)
    const period = Math.floor(deps.now().getTime() / periodMs)
    const etag = `"${version}-${since ?? 'all'}-${period}-${keys.kid.slice(0, 8)}"`
    if (matches(ifNoneMatch, etag)) return { version, etag, notModified: true }
    const start = since === undefined ? undefined : startOf(since, version)
    const name = `${applicationId} ${version} ${start ?? 'all'} ${period} ${keys.kid}`
    const list =
      kept.get(name) ??
      (await buildOnce(name, async () => {
        const built = await buildList(deps, keys, applicationId, start, version)
        kept.set(name, built)
        return built
      }))
    return { ...list, etag, revoked: list.revoked!.slice(Number((since ?? 0n) - (start ?? 0n))) }
  }
}

const mostExact = 256n

/**
 * The version that the signed list for `since` starts from: `since` itself where little has come after it, else one
 * that is as far back again at most. Each version has one licence, so a list is at most twice as long as asked for.
 *
 * @example startOf(34_000n, 100_000n) // 0n: the whole list
 */
function startOf(since: bigint, version: bigint): bigint {
  const distance = version - since
  if (distance <= mostExact) return since
  const step = 2n ** BigInt(distance.toString(2).length - 1)
  return (since / step) * step
}

async function buildList(
  { sql, now }: ProductDependencies,
  { kid, signingKey }: KeySet,
  applicationId: string,
  since: bigint | undefined,
  version: bigint,
): Promise<Answer> {
  const revoked = await findRevoked(sql, applicationId, since ?? 0n, version)
  const iat = Math.floor(now().getTime() / 1000)
  const payload = {
    app_id: applicationId,
    version: Number(version),
    since: since === undefined ? null : Number(since),
    revoked,
    iat,
    exp: iat + listLifeSeconds,
  }
  const signature = await new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
    .setProtectedHeader({ alg: algorithm, kid })
    .sign(signingKey)
  return { version, revoked, signature, notModified: false }
}

/** RFC 9110: a list of entity tags, compared weakly, or `*`. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  return (ifNoneMatch ?? '').split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
