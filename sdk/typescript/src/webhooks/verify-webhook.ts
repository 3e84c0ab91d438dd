import type { WebhookEvent } from './webhook-event.ts'

/**
 * Why a delivery was refused:
 *
 * - `no_secret`: no secret was given, or an empty one;
 * - `malformed_header`: the header is missing, or has no time or no signature of the right form;
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

/** All headers of a request: of `fetch`, or an object as Node and most frameworks have it. */
type RequestHeaders =
  { get(name: string): string | null } | { readonly [name: string]: string | readonly string[] | undefined }

const DEFAULT_TOLERANCE_SECONDS = 300

/**
 * Verifies a webhook delivery and returns its event. Takes both signatures that an endpoint can have: `default`, and `standard`
 * (Standard Webhooks), which needs all headers. The signature is compared in constant time.
 *
 * @param rawBody the request's body exactly as received: bytes, or the text decoded as UTF-8
 * @param headers all headers of the request, or the `Webhook-Signature` header of the default signature
 * @param secrets the endpoint's secret (`whsec_…`); several while one is being rotated
 * @returns the event; ignore types you do not know
 * @throws WebhookVerificationError with a `reason`, if the delivery must not be trusted
 * @example
 * const event = await verifyWebhook(rawBody, request.headers, secret)
 * if (event.type === 'licence.revoked') await closeAccount(event.data.object.licence_id)
 */
export async function verifyWebhook(
  rawBody: string | Uint8Array | ArrayBuffer,
  headers: SignatureHeader | RequestHeaders,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions = {},
): Promise<WebhookEvent> {
  const list = typeof secrets === 'string' ? [secrets] : secrets
  if (list.length === 0 || list.includes('')) {
    throw new WebhookVerificationError('no_secret', 'no signing secret was given')
  }
  const { time, head, signatures, keyOf } = readSignature(headers)
  const body = bytesOf(rawBody)
  const keys = list.map(keyOf).filter((key) => key.length > 0)
  if (!(await isSignedBy(keys, concatenate(encode(head), body), signatures))) {
    throw new WebhookVerificationError('signature_mismatch', 'no signature matches the raw body and a secret')
  }
  const age = (options.clock ?? Date.now)() / 1000 - Number(time)
  const tolerance = options.toleranceSeconds ?? DEFAULT_TOLERANCE_SECONDS
  if (!(Math.abs(age) <= tolerance)) {
    const message = `signed ${Math.round(age)} s ago; the tolerance is ${tolerance} s in either direction`
    throw new WebhookVerificationError('timestamp_outside_tolerance', message)
  }
  return readEvent(body)
}

type Bytes = Uint8Array<ArrayBuffer>

interface Signature {
  /** Unix seconds. */
  time: string
  /** The text that is signed before the body. */
  head: string
  signatures: readonly Bytes[]
  /** The key of a secret. It is empty if the secret cannot be one for this signature. */
  keyOf: (secret: string) => Bytes
}

function readSignature(given: SignatureHeader | RequestHeaders): Signature {
  const isHeader = given === null || given === undefined || typeof given === 'string' || isList(given)
  if (isHeader) return readDefault(textOf(given))
  const header = headerOf(given, 'webhook-signature')
  // A default signature begins with its time. The parts of a standard one are separated by spaces.
  return /(^|\s)v1,/.test(header) ? readStandard(given, header) : readDefault(header)
}

function readDefault(header: string): Signature {
  const parts = header.split(',').map((part) => part.trim())
  const valuesOf = (name: string) =>
    parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1))
  const [time, ...others] = valuesOf('t')
  const signatures = valuesOf('v1')
    .filter((hex) => /^[0-9a-f]{64}$/.test(hex))
    .map((hex) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16)))
  if (time === undefined || others.length > 0 || !/^\d{1,15}$/.test(time) || signatures.length === 0) {
    throw new WebhookVerificationError(
      'malformed_header',
      'Webhook-Signature is not of the form t=…,v1=…; for a standard signature, pass all headers',
    )
  }
  return { time, head: `${time}.`, signatures, keyOf: encode }
}

function readStandard(headers: RequestHeaders, header: string): Signature {
  const [id, time] = [headerOf(headers, 'webhook-id'), headerOf(headers, 'webhook-timestamp')]
  const signatures = header.split(/\s+/).flatMap((part) => {
    const mac = part.startsWith('v1,') ? decodeBase64(part.slice(3)) : encode('')
    return mac.length === 32 ? [mac] : []
  })
  if (id === '' || !/^\d{1,15}$/.test(time) || signatures.length === 0) {
    const message = 'webhook-id, webhook-timestamp or webhook-signature is missing or malformed'
    throw new WebhookVerificationError('malformed_header', message)
  }
  const keyOf = (secret: string) => decodeBase64(secret.replace(/^whsec_/, ''))
  return { time, head: `${id}.${time}.`, signatures, keyOf }
}

const isList = (given: unknown): given is readonly string[] => Array.isArray(given)

const textOf = (value: SignatureHeader) => String(value ?? '')

/** A header by its name in lower case, whatever case it has in the request. */
function headerOf(headers: RequestHeaders, name: string): string {
  if (typeof headers.get === 'function') return headers.get(name) ?? ''
  const [, value] = Object.entries(headers).find(([other]) => other.toLowerCase() === name) ?? []
  return textOf(value as SignatureHeader)
}

/** Empty if the text is not base64 with its padding. */
function decodeBase64(text: string): Bytes {
  const isBase64 = text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)
  return isBase64 ? Uint8Array.from(atob(text), (character) => character.charCodeAt(0)) : encode('')
}

/**
 * Web Crypto compares in constant time. Every pair is tried, so that the duration does not reveal which pair matches.
 */
async function isSignedBy(
  keys: readonly Bytes[],
  signed: Bytes,
  signatures: readonly Bytes[],
): Promise<boolean> {
  const verdicts = keys.map(async (bytes) => {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    const key = await crypto.subtle.importKey('raw', bytes, algorithm, false, ['verify'])
    return Promise.all(signatures.map((signature) => crypto.subtle.verify('HMAC', key, signature, signed)))
  })
  return (await Promise.all(verdicts)).flat().includes(true)
}

function readEvent(body: Bytes): WebhookEvent {
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
  if (!isObject(value)) return false
  const { id, type, data } = value
  return typeof id === 'string' && typeof type === 'string' && isObject(data)
}

function isObject(value: unknown): value is Partial<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function bytesOf(body: string | Uint8Array | ArrayBuffer): Bytes {
  return typeof body === 'string' ? encode(body) : new Uint8Array(body)
}

function encode(text: string): Bytes {
  return new TextEncoder().encode(text)
}

function concatenate(head: Uint8Array, tail: Uint8Array): Bytes {
  const whole = new Uint8Array(head.length + tail.length)
  whole.set(head)
  whole.set(tail, head.length)
  return whole
}
