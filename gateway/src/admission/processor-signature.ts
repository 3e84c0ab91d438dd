import { ServiceError } from '@licensing/grpc/errors'

// `t=<seconds>`, and one or more `v1=<HMAC-SHA-256 in hexadecimal>` beside schemes of other times.
const item = /^(?:t=\d{1,12}|v1=[0-9a-f]{64}|(?!t=|v1=)[a-z]\w{0,15}=[\w.-]{0,200})$/
const mostCharacters = 2_000

/**
 * Whether a `Stripe-Signature` could be one. What could not is refused before its body is read.
 *
 * @throws ServiceError `bad_request`, as for a signature that does not match
 */
export function checkSignatureForm(header: string | undefined): void {
  const items = header === undefined || header.length > mostCharacters ? [] : header.split(',')
  const has = (name: string) => items.some((text) => text.startsWith(`${name}=`))
  if (has('t') && has('v1') && items.every((text) => item.test(text))) return
  throw new ServiceError('bad_request', 'the Stripe-Signature header is missing or malformed')
}
