import { isObject, isString } from './shape.ts'

/** The fields of a public key that are used. `x` is the Ed25519 key in base64url. */
export interface PublicKey {
  readonly kid?: string
  readonly x?: string
}

/** The content of a compact JWS. */
interface Decoded {
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Readonly<Record<string, unknown>>
  /** The bytes that were signed. */
  readonly signed: Uint8Array<ArrayBuffer>
  readonly signature: Uint8Array<ArrayBuffer>
}

/** Reads a compact JWS without verifying it; null if the text is none. */
export function decode(jws: string): Decoded | null {
  try {
    const [head = '', payload = '', signature = '', ...more] = jws.split('.')
    const [header, claims] = [head, payload].map((part): unknown =>
      JSON.parse(new TextDecoder().decode(fromBase64Url(part))),
    )
    if (!isObject(header) || !isObject(claims) || more.length > 0) return null
    const signed = new TextEncoder().encode(`${head}.${payload}`)
    return { header, claims, signed, signature: fromBase64Url(signature) }
  } catch {
    return null
  }
}

function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (character) => character.charCodeAt(0))
}

/**
 * Why a signed text cannot be used: its key is not among those given, perhaps a newer one; its signature or content is wrong;
 * or Ed25519 cannot be verified here, because Web Crypto does not even have SHA-512, as on a page without HTTPS.
 */
export type Unreadable = 'unknown_key' | 'forged' | 'unsupported_runtime'

/**
 * The payload of a compact JWS of the service. Only Ed25519 is accepted, whatever the header and the key claim. Never throws.
 */
export async function verify(
  jws: string,
  keys: readonly PublicKey[],
): Promise<Readonly<Record<string, unknown>> | Unreadable> {
  const decoded = decode(jws)
  if (!decoded) return 'forged'
  const { kid, alg, crit } = decoded.header
  const key = keys.find((candidate) => candidate.kid === kid)
  if (!isString(kid) || !key) return 'unknown_key'
  if (alg !== 'EdDSA' || crit !== undefined) return 'forged'
  if (globalThis.crypto?.subtle === undefined) return 'unsupported_runtime'
  const isRight = await isSignedBy(key, decoded).catch(() => false)
  if (isRight === 'unsupported_runtime') return isRight
  return isRight ? decoded.claims : 'forged'
}

/** @throws if the key or the signature is malformed */
async function isSignedBy({ x = '' }: PublicKey, { signed, signature }: Decoded) {
  const bytes = fromBase64Url(x)
  try {
    const key = await crypto.subtle.importKey('raw', bytes, { name: 'Ed25519' }, false, ['verify'])
    return await crypto.subtle.verify({ name: 'Ed25519' }, key, signature, signed)
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'NotSupportedError') throw error
  }
  // Web Crypto lacks Ed25519 (Chrome before 137, Firefox before 129): only then the library is loaded.
  const library = await import('@noble/ed25519').catch(() => null)
  // `zip215: false`: the rules of RFC 8032, which Web Crypto follows too.
  return library ? library.verifyAsync(signature, signed, bytes, { zip215: false }) : 'unsupported_runtime'
}
