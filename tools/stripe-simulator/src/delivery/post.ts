import { signBody } from './sign.ts'
import type { SignatureKind } from './sign.ts'

export type Endpoint = {
  url: string
  secret: string
  /** Event types, or `*` alone for all. */
  enabledEvents: string[]
}

export type Attempt = {
  at: string
  signature: SignatureKind
  /** Null when no answer came. */
  status: number | null
  error: string | null
  took_ms: number
}

const timeoutMs = 10_000

/** One signed POST of an event. Whatever happens becomes an attempt, never an exception. */
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
