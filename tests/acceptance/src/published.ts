import type { JSONWebKeySet } from 'jose'
import { expect } from 'vitest'
import type { Vendor } from './vendor.ts'

export interface Revocations {
  version: number
  revoked: string[]
  signature: string
}

/** The revocation list of an application, as products read it. */
export const revocations = (
  { api, app }: Pick<Vendor, 'api' | 'app'>,
  query = '',
  headers: Record<string, string> = {},
) => api.get<Revocations>(`${app}/revocations${query}`, { key: null, headers })

/** The keys that verify an application's tokens and lists. */
export async function publicKeys({ api, app }: Pick<Vendor, 'api' | 'app'>): Promise<JSONWebKeySet> {
  const answer = await api.get<JSONWebKeySet>(`${app}/jwks.json`, { key: null })
  expect(answer.status).toBe(200)
  return answer.body
}
