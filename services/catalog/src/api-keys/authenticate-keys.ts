import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import type { AuthenticateKeysRequest, AuthenticateKeysResponseSchema } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { findKeysByHash } from './api-key-queries.ts'
import { toPrincipal } from './api-key.ts'

const mostTogether = 1_000

/** Keys that a gateway does not know, most of them wrong: one statement, which waits for nothing of known keys. */
export async function authenticateKeys(
  { lookups, keyUse }: CatalogDependencies,
  { keyHashes }: AuthenticateKeysRequest,
): Promise<MessageInitShape<typeof AuthenticateKeysResponseSchema>> {
  if (keyHashes.length > mostTogether) throw invalid('/key_hashes', `must be at most ${mostTogether}`)
  const asked = keyHashes.map((keyHash) => Buffer.from(keyHash).toString('hex'))
  const rows = await findKeysByHash(lookups, asked)
  const known = new Map(rows.map((row) => [row.key_hash.toString('hex'), row]))
  return {
    answers: asked.map((keyHash) => {
      const row = known.get(keyHash)
      if (!row) return {}
      keyUse.touch(row.id)
      return { principal: toPrincipal(row) }
    }),
  }
}
