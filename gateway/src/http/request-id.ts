import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** The caller's `X-Request-Id` where it is one of 1 to 128 visible ASCII characters, else a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && /^[\x21-\x7e]{1,128}$/.test(given) ? given : randomUUID()
}
