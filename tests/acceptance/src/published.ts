import type { Stack } from '@licensing/test-support/stack-shape'
import { createLocalJWKSet } from 'jose'
import type { JWK } from 'jose'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { expectStatus } from './vendor.ts'
import type { Vendor } from './vendor.ts'

export interface Revocations {
  version: number
  revoked: string[]
  signature: string
}

type Application = Pick<Vendor, 'api' | 'app'>

/** The revocation list of an application, as products read it. */
export const revocations = ({ api, app }: Application, query = '', headers: Record<string, string> = {}) =>
  api.get<Revocations>(`${app}/revocations${query}`, { key: null, headers })

/** The keys of an application, as products read them. */
export async function keySet({ api, app }: Application) {
  const answer = await api.get<{ keys: JWK[]; signed: string[] }>(`${app}/jwks.json`, { key: null })
  expectStatus(answer, 200)
  return answer.body
}

/** The keys that verify an application's tokens and lists. */
export const publicKeys = async (vendor: Application) => createLocalJWKSet(await keySet(vendor))

const program = fileURLToPath(
  new URL('../../../services/licensing/src/admin/rotate-signing-keys.ts', import.meta.url),
)

/** Runs the operator's program for the signing keys of an application. */
export async function rotateSigningKey(stack: Stack, { appId }: Vendor, ...options: string[]): Promise<void> {
  const { ENCRYPTION_KEY } = stack.processes.licensing[0]!.environment
  const env = { DATABASE_URL: stack.databaseUrls.licensing, ENCRYPTION_KEY }
  await promisify(execFile)(process.execPath, [program, '--app', appId, ...options], { env })
}
