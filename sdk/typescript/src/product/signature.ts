import { base64url, compactVerify, decodeJwt, decodeProtectedHeader, importJWK } from 'jose'
import { isObject } from './shape.ts'

/** The fields of a public key that are used. `x` is the Ed25519 key in base64url. */
export interface PublicKey {
  readonly kid?: string
  readonly x?: string
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
  try {
    const { kid } = decodeProtectedHeader(jws)
    const jwk = keys.find((key) => key.kid === kid)
    if (kid === undefined || !jwk) return 'unknown_key'
    const payload = await payloadOf(jws, jwk.x ?? '')
    if (payload === 'unsupported_runtime') return payload
    const claims: unknown = JSON.parse(new TextDecoder().decode(payload))
    return isObject(claims) ? claims : 'forged'
  } catch {
    return 'forged'
  }
}

/** @throws if the signature is not valid */
async function payloadOf(jws: string, x: string): Promise<Uint8Array | 'unsupported_runtime'> {
  try {
    const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x }, 'EdDSA')
    return (await compactVerify(jws, key, { algorithms: ['EdDSA'] })).payload
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'NotSupportedError') throw error
  }
  return payloadByLibrary(jws, x)
}

/** Verifies with a library if Web Crypto lacks Ed25519 (Chrome before 137, Firefox before 129), and loads it only then. */
async function payloadByLibrary(jws: string, x: string): Promise<Uint8Array | 'unsupported_runtime'> {
  const [header = '', payload = '', signature = '', ...more] = jws.split('.')
  const { alg, crit } = decodeProtectedHeader(jws)
  if (alg !== 'EdDSA' || crit !== undefined || more.length > 0) throw new Error('not a JWS of the service')
  const library = await import('@noble/ed25519').catch(() => undefined)
  // The library uses the hash of Web Crypto, which a page without HTTPS lacks.
  if (library === undefined || globalThis.crypto?.subtle === undefined) return 'unsupported_runtime'
  const isRight = await library.verifyAsync(
    base64url.decode(signature),
    new TextEncoder().encode(`${header}.${payload}`),
    base64url.decode(x),
    // The rules of RFC 8032, which Web Crypto follows too.
    { zip215: false },
  )
  if (!isRight) throw new Error('the signature was not made with the key')
  return base64url.decode(payload)
}

/** The id of the key that a JWS claims to be signed with. */
export function keyIdOf(jws: string): string | undefined {
  try {
    return decodeProtectedHeader(jws).kid
  } catch {
    return undefined
  }
}

/** The claims of a token, not verified. */
export function unverified(jws: string): Readonly<Record<string, unknown>> | null {
  try {
    return decodeJwt(jws)
  } catch {
    return null
  }
}
