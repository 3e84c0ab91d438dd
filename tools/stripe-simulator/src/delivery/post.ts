import { createHmac } from 'node:crypto'

export type Endpoint = {
  url: string
  secret: string
  /** Event types, or `*` alone for all. */
  enabledEvents: string[]
}

export type Attempt = {
  at: string
  signature: SignatureKind
  /** The status of the answer; null if there was none. */
  status: number | null
  error: string | null
  took_ms: number
}

const timeoutMs = 10_000

/** Sends one signed POST of an event. A failure is part of the returned attempt, never an exception. */
export async function postEvent(
  endpoint: Endpoint,
  event: object,
  signature: SignatureKind,
  stop: AbortSignal,
): Promise<Attempt> {
  const started = performance.now()
  const at = new Date().toISOString()
  // Stripe sends its events indented, so that a receiver which parses before it verifies fails.
  const { body, header } = signBody(JSON.stringify(event, null, 2), endpoint.secret, signature)
  const attempt = (status: number | null, error: string | null): Attempt => {
    return { at, signature, status, error, took_ms: Math.round(performance.now() - started) }
  }
  try {
    const response = await fetch(endpoint.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'user-agent': 'Stripe/1.0 (simulated)',
        'x-simulated': 'stripe-simulator',
        ...(header !== undefined && { 'stripe-signature': header }),
      },
      body,
      // A redirect is a failure, as with Stripe.
      redirect: 'manual',
      signal: AbortSignal.any([stop, AbortSignal.timeout(timeoutMs)]),
    })
    await response.arrayBuffer()
    return attempt(response.status, null)
  } catch (error) {
    return attempt(null, describe(error))
  }
}

export function isAccepted(attempt: Attempt): boolean {
  return attempt.status !== null && attempt.status >= 200 && attempt.status < 300
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

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

/** Just more than the 300 seconds that a receiver tolerates. */
const tooFarSeconds = 310

type SignedBody = { body: string; header: string | undefined }

/** Signs the exact bytes as Stripe does. A correct receiver refuses every kind of signature except `valid`. */
function signBody(
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
