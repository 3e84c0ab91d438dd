import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import type { GetRevocationsRequest, RevocationsSchema } from '@licensing/proto/products'
import { CompactSign } from 'jose'
import { LRUCache } from 'lru-cache'
import type { ProductDeps } from './dependencies.ts'
import { findRevoked, findVersion } from './revocation-queries.ts'

type Answer = MessageInitShape<typeof RevocationsSchema>

// A signed list is good for so long, and is signed anew after half of it, so that what a cache holds is still good.
const listLifeSeconds = 86_400
const keptBytes = 64 * 1024 * 1024

/**
 * The signed list of revoked licences. A list is built and signed once for each version that it starts from and ends
 * at, and kept; a poll that finds nothing new costs one look-up of the version.
 */
export function revocationLists(deps: ProductDeps): (request: GetRevocationsRequest) => Promise<Answer> {
  const lists = new LRUCache<string, Promise<Answer>>({
    maxSize: keptBytes,
    ttl: (listLifeSeconds / 2) * 1000,
    sizeCalculation: () => 1,
    max: 1_000,
  })
  return async ({ applicationId, since, ifNoneMatch }) => {
    const version = await findVersion(deps.sql, applicationId)
    if (since !== undefined && (since < 0n || since > version)) {
      throw invalid('/since', 'must be a version that this list has had')
    }
    const nowSeconds = Math.floor(deps.now().getTime() / 1000)
    const signedAt = nowSeconds - (nowSeconds % (listLifeSeconds / 2))
    const { kid } = await deps.keys.of(applicationId)
    const etag = `"${version}-${since ?? 'all'}-${signedAt.toString(36)}-${kid.slice(-8)}"`
    if (ifNoneMatch !== '' && matches(ifNoneMatch, etag)) return { version, etag, notModified: true }
    const name = `${applicationId} ${etag}`
    let list = lists.get(name)
    if (!list) {
      list = build(deps, applicationId, since, version, signedAt, etag)
      lists.set(name, list)
      list.catch(() => lists.delete(name))
    }
    return list
  }
}

async function build(
  { sql, keys }: ProductDeps,
  applicationId: string,
  since: bigint | undefined,
  version: bigint,
  iat: number,
  etag: string,
): Promise<Answer> {
  const revoked = await findRevoked(sql, applicationId, since ?? 0n, version)
  const { kid, signingKey } = await keys.of(applicationId)
  const payload = {
    app_id: applicationId,
    version: Number(version),
    since: since === undefined ? null : Number(since),
    revoked,
    iat,
    exp: iat + listLifeSeconds,
  }
  const signature = await new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
    .setProtectedHeader({ alg: 'EdDSA', kid })
    .sign(signingKey)
  return { version, revoked, signature, etag, notModified: false }
}

/** RFC 9110: a list of entity tags, compared weakly, or `*`. */
function matches(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch.split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
