import { createHmac } from 'node:crypto'

export const signatureKinds = [
  'valid',
  'wrong_secret',
  'tampered',
  'reserialized',
  'old',
  'future',
  'missing',
  'malformed',
  'v0_only',
] as const
export type SignatureKind = (typeof signatureKinds)[number]

/** Just outside the 300 seconds that a receiver allows. */
const tooFarSeconds = 310

export type SignedBody = { body: string; header: string | undefined }

/** Signs exact bytes as Stripe does; every kind but `valid` must be refused by a careful receiver. */
export function signBody(
  payload: string,
  secret: string,
  kind: SignatureKind,
  now = Math.floor(Date.now() / 1000),
): SignedBody {
  const signed = { body: payload, header: header(payload, secret, now) }
  switch (kind) {
    case 'valid':
      return signed
    case 'wrong_secret':
      return { ...signed, header: header(payload, `${secret}_of_another_endpoint`, now) }
    case 'tampered':
      return { ...signed, body: payload.replace('"livemode": false', '"livemode": true') }
    case 'reserialized':
      return { ...signed, body: JSON.stringify(JSON.parse(payload)) }
    case 'old':
      return { ...signed, header: header(payload, secret, now - tooFarSeconds) }
    case 'future':
      return { ...signed, header: header(payload, secret, now + tooFarSeconds) }
    case 'missing':
      return { ...signed, header: undefined }
    case 'malformed':
      return { ...signed, header: 'v1=,t' }
    case 'v0_only':
      return { ...signed, header: signed.header.replace('v1=', 'v0=') }
  }
}

function header(payload: string, secret: string, timestamp: number): string {
  const signature = createHmac('sha256', secret).update(`${timestamp}.${payload}`).digest('hex')
  return `t=${timestamp},v1=${signature}`
}
