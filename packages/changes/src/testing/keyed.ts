import { withIdempotencyKey } from '@licensing/grpc/idempotency-key'
import { hash } from 'node:crypto'

/** Makes calls like the gateway does for a request to `path` with an Idempotency-Key. */
export function keyed<T>(
  path: string,
  work: () => Promise<T>,
  { key = 'a key', body = '' }: { key?: string; body?: string } = {},
): Promise<{ value: T; replayed: boolean }> {
  return withIdempotencyKey({ path, key, bodyHash: hash('sha256', body, 'buffer') }, work)
}
