import { ServiceError } from '@licensing/grpc/errors'
import type { IncomingMessage } from 'node:http'

/** Refuses what HTTP itself does not allow, though node can read it. */
export function refuseMalformed(request: IncomingMessage): void {
  const { headers, httpVersion, rawHeaders } = request
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'host').length
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1')) {
    throw new ServiceError('bad_request', 'send the header Host, once')
  }
  const { expect } = headers
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw new ServiceError('bad_request', 'the only expectation that is met is Expect: 100-continue')
  }
}
