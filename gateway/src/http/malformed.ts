import { ServiceError } from '@licensing/grpc/errors'
import type { IncomingMessage } from 'node:http'

/** Refuses what HTTP itself does not allow, though node can read it. */
export function refuseMalformed(request: IncomingMessage): void {
  const { headers, httpVersion, rawHeaders } = request
  const hosts = countHosts(rawHeaders)
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1')) {
    throw new ServiceError('bad_request', 'send exactly one Host header')
  }
  const { expect } = headers
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw new ServiceError('bad_request', 'unsupported Expect header: only 100-continue is supported')
  }
}

/** Node keeps the first of several. */
function countHosts(rawHeaders: string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === 'host') count++
  }
  return count
}
