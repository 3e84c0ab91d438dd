import { base64url, compactVerify, decodeJwt, decodeProtectedHeader, importJWK } from 'jose'
import { isObject } from './shape.ts'

/** The fields of a public key that are used. `x` is the Ed25519 key in base64url. */
export interface PublicKey {
  readonly kid?: string
  readonly x?: string
}

/** The public keys of an application, as `GET /v1/apps/{app_id}/jwks.json` gives them. */
export interface KeySet {
  readonly keys: readonly PublicKey[]
}

export type Verified =
  | { readonly result: 'authentic'; readonly payload: Readonly<Record<string, unknown>> }
  /** Signed with a key that is not in the set: perhaps a newer one. */
  | { readonly result: 'unknown_key' }
  | { readonly result: 'forged' }
  /** Ed25519 cannot be verified here: Web Crypto does not even have SHA-512, as on a page without HTTPS. */
  | { readonly result: 'unsupported_runtime' }

/** Verifies a compact JWS of the service. Only Ed25519 is accepted, whatever the header and the key claim. Never throws. */
export async function verify(jws: string, keySet: KeySet | null): Promise<Verified> {
  try {
    const { kid } = decodeProtectedHeader(jws)
    const jwk = keySet?.keys.find((key) => key.kid === kid)
    if (kid === undefined || !jwk) return { result: 'unknown_key' }
    const payload = await payloadOf(jws, jwk.x ?? '')
    if (payload === 'unsupported_runtime') return { result: payload }
    const claims: unknown = JSON.parse(new TextDecoder().decode(payload))
    return isObject(claims) ? { result: 'authentic', payload: claims } : { result: 'forged' }
  } catch {
    return { result: 'forged' }
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

export function isKeySet(value: unknown): value is KeySet {
  return isObject(value) && Array.isArray(value['keys']) && value['keys'].every(isObject)
}
