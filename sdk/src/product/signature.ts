import { compactVerify, decodeProtectedHeader, importJWK, type JWK } from 'jose'
import { isObject } from './shape.ts'

/** The public keys of an application, as `GET /v1/apps/{app_id}/jwks.json` gives them. */
export interface KeySet {
  readonly keys: readonly JWK[]
}

export type Verified =
  | { readonly result: 'authentic'; readonly payload: Readonly<Record<string, unknown>> }
  /** Signed with a key that is not in the set: perhaps a newer one. */
  | { readonly result: 'unknown_key' }
  | { readonly result: 'forged' }
  /** This runtime's Web Crypto has no Ed25519. */
  | { readonly result: 'unsupported_runtime' }

/** Verifies a compact JWS of the service. Only Ed25519 counts, whatever header and key claim to be. Never throws. */
export async function verify(jws: string, keySet: KeySet | null): Promise<Verified> {
  try {
    const { kid } = decodeProtectedHeader(jws)
    const jwk = keySet?.keys.find((key) => key.kid === kid)
    if (kid === undefined || !jwk) return { result: 'unknown_key' }
    const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x: jwk.x ?? '' }, 'EdDSA')
    const { payload } = await compactVerify(jws, key, { algorithms: ['EdDSA'] })
    const claims: unknown = JSON.parse(new TextDecoder().decode(payload))
    return isObject(claims) ? { result: 'authentic', payload: claims } : { result: 'forged' }
  } catch (error) {
    const lacksEd25519 = error instanceof Error && error.name === 'NotSupportedError'
    return { result: lacksEd25519 ? 'unsupported_runtime' : 'forged' }
  }
}

export function isKeySet(value: unknown): value is KeySet {
  return isObject(value) && Array.isArray(value['keys']) && value['keys'].every(isObject)
}
