import { eventually } from '@licensing/test-support/poll'
import type { ApiAnswer } from '@licensing/test-support/api-client'
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { Envelope } from './delivery.ts'
import type { Market } from './shop.ts'
import { allRows } from './vendor.ts'
import type { Licence } from './vendor.ts'

/** A licence with the fields of section 14 of the additions. */
export interface FullLicence extends Licence {
  metadata: Record<string, string>
  updates_until: string | null
  trial: boolean
}

export interface Override {
  key: string
  kind: string
  value: string
  ends_on: string | null
  note: string | null
  created_at: string
}

export interface Detail extends FullLicence {
  entitlements: { key: string; kind: string; value: string }[]
  overrides: Override[]
  effective: { key: string; kind: string; value: string; from: string }[]
  plan_drift: object[]
  activations: { id: string; fingerprint: string; lease_ends_at: string | null }[]
  leases_in_use: number
  allowed: string[]
}

export interface Grant {
  activation_id: string
  licence_id: string
  token: string
  expires_at: string
  refresh_after: string
  lease_ends_at: string | null
}

interface Entry {
  type: string
  actor: string
  cause: string | null
  changes: Record<string, { from: unknown; to: unknown }> | null
}

/** A shop with an application that has two entitlements, and functions for the vendor's calls. */
export async function givenStudio(market: Market) {
  const shop = await market.givenShop()
  const { api, app } = shop
  await shop.define('export_pdf', 'feature')
  await shop.define('projects', 'limit', '3')
  const detail = async (id: string) => (await api.get<Detail>(`/v1/licences/${id}`)).body
  const patch = (id: string, body: object) => api.patch<FullLicence>(`/v1/licences/${id}`, { body })
  const history = (id: string) => allRows<Entry>(api, `/v1/licences/${id}/history`)
  const issue = (planId: string, fields: Record<string, unknown> = {}) =>
    shop.issue(planId, fields) as Promise<FullLicence>
  const sell = (body: Record<string, unknown>) =>
    api.post<{ licence_id: string }>(`${app}/sale-events`, {
      body: {
        sale_id: randomUUID(),
        external_ref: 'customer',
        amount: 100,
        currency: 'eur',
        occurred_at: new Date().toISOString(),
        ...body,
      },
    })
  const product = <Body = Grant>(path: string, body?: object, token: string | null = null) =>
    api.post<Body>(path, { key: token, ...(body && { body }) })
  const installation = (fingerprint: string = randomUUID()) => ({
    fingerprint,
    host: 'a.example.com',
    product_version: '1',
  })
  const activate = (licence: { key: string }, fingerprint?: string, more: object = {}) =>
    product('/v1/activations', { licence_key: licence.key, ...installation(fingerprint), ...more })
  const refresh = ({ body }: { body: Grant }) =>
    product(
      `/v1/activations/${body.activation_id}/refresh`,
      { product_version: '1', host: 'a.example.com' },
      body.token,
    )
  const tryOut = (planCode: string, fingerprint?: string) =>
    product<Grant & { licence_key: string }>(`${app}/trials`, {
      plan_code: planCode,
      ...installation(fingerprint),
    })
  /** The events of a type about a licence that the receiver has received. */
  const heard = (type: string, licenceId: string): Envelope[] =>
    shop.events().filter((event) => event.type === type && event.data.object['licence_id'] === licenceId)
  /** Causes another event and waits until it has arrived. All earlier events have arrived then. */
  const settled = async () => {
    const { id } = await shop.issue((await shop.plan()).id)
    await shop.verb('revoke', id)
    await eventually(() => expect(heard('licence.revoked', id)).toHaveLength(1))
  }
  return { ...shop, issue, detail, patch, history, sell, product, activate, refresh, tryOut, heard, settled }
}

export type Studio = Awaited<ReturnType<typeof givenStudio>>

/** The claims of a token, without verification. Other tests verify signatures. */
export function claimsOf(token: string): Record<string, unknown> & { exp: number; iat: number } {
  const [, payload = ''] = token.split('.')
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown> & {
    exp: number
    iat: number
  }
}

export function expectStatus(answer: ApiAnswer<unknown>, status: number): void {
  expect(answer.status, JSON.stringify(answer.body)).toBe(status)
}

export const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
export const dayMs = 86_400_000
