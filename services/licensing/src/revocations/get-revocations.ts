import type { MessageInitShape } from '@bufbuild/protobuf'
import { createBatcher } from '@licensing/changes/batcher'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { invalid } from '@licensing/grpc/errors'
import { createKeyedQueue } from '@licensing/grpc/keyed-queue'
import type { GetRevocationsRequest, RevocationsSchema } from '@licensing/proto/products'
import { LRUCache } from 'lru-cache'
import { sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import type { ProductDependencies } from '../dependencies.ts'
import { algorithm } from '../signing-keys/new-signing-key.ts'
import { checkApplicationId, listLifeSeconds } from '../signing-keys/signing-keys.ts'
import { findLists, findRevoked } from './revocation-queries.ts'
import type { ListState } from './revocation-queries.ts'

type GetRevocations = (request: GetRevocationsRequest) => Promise<MessageInitShape<typeof RevocationsSchema>>

interface SignedAnswer {
  version: number
  more: boolean
  etag: string
  json: Buffer
}

// A list is signed again after a quarter of its life, so that a cached list stays valid for most of its life.
const periodMs = (listLifeSeconds / 4) * 1000
const maxBytes = 64 * 1024 * 1024
// The contract's (docs/guides/formats.md, "Revocation list"). An answer then has 1.3 MB.
const maxIds = 16_384

/**
 * The handler of GetRevocations: signed lists of revoked licences. A poll that finds nothing new costs one look-up of the
 * version, which polls of one moment share. Signed answers are cached until they would change: an answer with `more` never
 * does, because later revocations have higher versions, and the last one changes with the version. The answers of one
 * application are made one at a time, so that requests with many different `since` do not slow other applications.
 */
export function createGetRevocations(deps: ProductDependencies): GetRevocations {
  const listOf = createBatcher<string, ListState>((ids) => findLists(deps.sql, ids), {
    maxBatchSize: 500,
    slots: 2,
    isTransient: isDatabaseUnavailable,
  })
  const turns = createKeyedQueue('too many revocation lists are being signed: try again')
  const made = new LRUCache<string, SignedAnswer>({
    maxSize: maxBytes,
    sizeCalculation: ({ json }) => 200 + json.length,
  })

  return async ({ applicationId, since: asked, ifNoneMatch }) => {
    checkApplicationId(applicationId)
    const { version, epoch } = await listOf(applicationId)
    if (asked !== undefined && (asked < 0n || asked > version)) {
      throw invalid('/since', 'must be a previous version of this list')
    }
    const since = asked === undefined ? null : Number(asked)
    const { kid, signingKey } = await deps.keys.of(applicationId)
    const period = Math.floor(deps.now().getTime() / periodMs)
    // The same licences with and without `more` are two answers.
    const etagOf = (version: number, more = false) =>
      `"${version}${more ? '-more' : ''}-${since ?? 'all'}-${period}-${kid.slice(0, 8)}"`
    const name = [applicationId, since, epoch, period, kid].join(' ')
    const known = () => made.get(name) ?? made.get(`${name} ${version}`)
    const notModified = (etag: string, version: number) => ({
      version: BigInt(version),
      etag,
      notModified: true,
    })

    if (!known() && matches(ifNoneMatch, etagOf(version))) return notModified(etagOf(version), version)
    const make = async (): Promise<SignedAnswer> => {
      const range = { since: since ?? 0, version, max: maxIds }
      const { ids, last, more } = await findRevoked(deps.sql, applicationId, range)
      const end = more ? last : version
      const iat = Math.floor(deps.now().getTime() / 1000)
      const rest = `"more":${more},"iat":${iat},"exp":${iat + listLifeSeconds}`
      const payload = `{"app_id":"${applicationId}","version":${end},"since":${since},"revoked":[${ids}],${rest}}`
      const signature = await signed(payload, kid, signingKey)
      const text = `{"version":${end},"revoked":[${ids}],"more":${more},"signature":"${signature}"}`
      const answer = { version: end, more, etag: etagOf(end, more), json: Buffer.from(text) }
      made.set(more ? name : `${name} ${version}`, answer)
      return answer
    }
    const answer = known() ?? (await turns.run(applicationId, async () => known() ?? make()))
    if (matches(ifNoneMatch, answer.etag)) return notModified(answer.etag, answer.version)
    const { etag, more, json } = answer
    return { version: BigInt(answer.version), etag, notModified: false, more, json }
  }
}

const signAsync = promisify<null, Buffer, KeyObject, Buffer>(sign)

/** RFC 7515, compact serialization. */
async function signed(payload: string, kid: string, key: KeyObject): Promise<string> {
  const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64url')
  const text = `${base64(JSON.stringify({ alg: algorithm, kid }))}.${base64(payload)}`
  return `${text}.${base64(await signAsync(null, Buffer.from(text), key))}`
}

/** RFC 9110: a list of entity tags, compared weakly, or `*`. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  return (ifNoneMatch ?? '').split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
