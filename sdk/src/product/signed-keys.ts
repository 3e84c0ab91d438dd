import type { RootKey } from './root-key.ts'
import { isObject, isUnixTime } from './shape.ts'
import { verify, type PublicKey } from './signature.ts'

/** A key set that a root key has signed, with times in milliseconds since 1970 UTC. */
export interface SignedKeys {
  readonly jws: string
  readonly keys: readonly PublicKey[]
  readonly issuedAt: number
  readonly expiresAt: number
}

/** Reads an entry of `signed`. The caller checks its times. */
export async function readSignedKeys(
  jws: string,
  roots: readonly RootKey[],
  appId: string,
): Promise<SignedKeys | 'untrusted_keys' | 'unsupported_runtime'> {
  const verified = await verify(jws, { keys: roots })
  if (verified.result === 'unsupported_runtime') return verified.result
  if (verified.result !== 'authentic') return 'untrusted_keys'
  const { app_id: app, keys, iat, exp } = verified.payload
  if (app !== appId || !Array.isArray(keys) || !keys.every(isObject)) return 'untrusted_keys'
  if (!isUnixTime(iat) || !isUnixTime(exp)) return 'untrusted_keys'
  return { jws, keys, issuedAt: iat * 1000, expiresAt: exp * 1000 }
}
