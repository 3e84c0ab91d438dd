import type { WebhookEvent } from './webhook-event.ts'

/**
 * Why a delivery was refused:
 *
 * - `no_secret`: no secret was given, or an empty one;
 * - `malformed_header`: the header is missing, or has no `t` or no `v1` of the right form;
 * - `signature_mismatch`: signed with another secret, or the body was changed (also by parsing and serialising it);
 * - `timestamp_outside_tolerance`: signed too long ago, or in the future: perhaps a replay;
 * - `malformed_body`: the signature is valid, but the body is not an event.
 */
export type WebhookVerificationReason =
  'no_secret' | 'malformed_header' | 'signature_mismatch' | 'timestamp_outside_tolerance' | 'malformed_body'

/** A delivery that must not be acted on: answer it with 400. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
  readonly reason: WebhookVerificationReason

  constructor(reason: WebhookVerificationReason, message: string) {
    super(message)
    this.reason = reason
  }
}

export interface VerifyWebhookOptions {
  /** Largest difference between `t` and the current time, in seconds, in either direction. Default: 300. */
  readonly toleranceSeconds?: number | undefined
  /** The current time in milliseconds since 1970 UTC. Default: `Date.now`. */
  readonly clock?: (() => number) | undefined
}

/** The header as frameworks return it: Node may return a list. */
type SignatureHeader = string | readonly string[] | null | undefined

const DEFAULT_TOLERANCE_SECONDS = 300

/**
 * Verifies a webhook delivery and returns its event. The signature is compared in constant time.
 *
 * @param rawBody the request's body exactly as received: bytes, or the text decoded as UTF-8
 * @param header the `Webhook-Signature` header
 * @param secrets the endpoint's secret (`whsec_…`); several while one is being rotated
 * @returns the event; ignore types you do not know
 * @throws WebhookVerificationError with a `reason`, if the delivery must not be trusted
 * @example
 * const event = await verifyWebhook(rawBody, request.headers['webhook-signature'], secret)
 * if (event.type === 'licence.revoked') await closeAccount(event.data.object.licence_id)
 */
export async function verifyWebhook(
  rawBody: string | Uint8Array | ArrayBuffer,
  header: SignatureHeader,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions = {},
): Promise<WebhookEvent> {
  const keys = typeof secrets === 'string' ? [secrets] : secrets
  if (keys.length === 0 || keys.includes('')) {
    throw new WebhookVerificationError('no_secret', 'no signing secret was given')
  }
  const { t, signatures } = readHeader(header)
  const body = bytesOf(rawBody)
  const signed = concatenate(encode(`${t}.`), body)
  if (!(await isSignedBy(keys, signed, signatures))) {
    throw new WebhookVerificationError('signature_mismatch', 'no signature matches the raw body and a secret')
  }
  const age = (options.clock ?? Date.now)() / 1000 - Number(t)
  const tolerance = options.toleranceSeconds ?? DEFAULT_TOLERANCE_SECONDS
  if (!(Math.abs(age) <= tolerance)) {
    const message = `signed ${Math.round(age)} s ago; the tolerance is ${tolerance} s in either direction`
    throw new WebhookVerificationError('timestamp_outside_tolerance', message)
  }
  return readEvent(body)
}

function readHeader(header: SignatureHeader): { t: string; signatures: Uint8Array<ArrayBuffer>[] } {
  const parts = String(header ?? '')
    .split(',')
    .map((part) => part.trim())
  const valuesOf = (name: string) =>
    parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1))
  const [t, ...others] = valuesOf('t')
  const signatures = valuesOf('v1')
    .filter((hex) => /^[0-9a-f]{64}$/.test(hex))
    .map((hex) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16)))
  if (t === undefined || others.length > 0 || !/^\d{1,15}$/.test(t) || signatures.length === 0) {
    throw new WebhookVerificationError('malformed_header', 'Webhook-Signature is not of the form t=…,v1=…')
  }
  return { t, signatures }
}

/**
 * Web Crypto compares in constant time. Every pair is tried, so that the duration does not reveal which pair matches.
 */
async function isSignedBy(
  secrets: readonly string[],
  signed: Uint8Array<ArrayBuffer>,
  signatures: readonly Uint8Array<ArrayBuffer>[],
): Promise<boolean> {
  const verdicts = secrets.map(async (secret) => {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    const key = await crypto.subtle.importKey('raw', encode(secret), algorithm, false, ['verify'])
    return Promise.all(signatures.map((signature) => crypto.subtle.verify('HMAC', key, signature, signed)))
  })
  return (await Promise.all(verdicts)).flat().includes(true)
}

function readEvent(body: Uint8Array<ArrayBuffer>): WebhookEvent {
  let event: unknown
  try {
    event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    throw new WebhookVerificationError('malformed_body', 'the body is not JSON')
  }
  if (!isEvent(event)) throw new WebhookVerificationError('malformed_body', 'the body is not an event')
  return event
}

function isEvent(value: unknown): value is WebhookEvent {
  if (typeof value !== 'object' || value === null) return false
  const { id, type, data } = value as Partial<Record<string, unknown>>
  return typeof id === 'string' && typeof type === 'string' && typeof data === 'object' && data !== null
}

function bytesOf(body: string | Uint8Array | ArrayBuffer): Uint8Array<ArrayBuffer> {
  return typeof body === 'string' ? encode(body) : new Uint8Array(body)
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

function concatenate(head: Uint8Array, tail: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(head.length + tail.length)
  whole.set(head)
  whole.set(tail, head.length)
  return whole
}
