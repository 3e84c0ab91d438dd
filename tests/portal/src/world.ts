import type { ApiAnswer } from '@licensing/test-support/api-client'
import { chromium } from '@licensing/test-support/chromium'
import { startHttpsReceiver, type HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { refuseUndeclaredCodes, startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest'
import { startBrowser, type Window, type WindowOptions } from './window.ts'

/** A stack, a receiver and a browser. They end with the worker. */
export interface World {
  readonly stack: Stack
  readonly receiver: HttpsReceiver
  open(options?: WindowOptions): Promise<Window>
  /** A new application, with functions that create data in it through the API. */
  vendor(name?: string): Promise<Vendor>
  key(scopes: readonly string[]): Promise<{ id: string; key: string }>
}

// Vitest loads this module once for all test files of a worker.
let shared: Promise<World> | undefined

/** Declares tests of the portal. The files of one worker share a stack, a receiver and a browser. */
export function portalTests(name: string, declare: (world: () => World) => void): void {
  describe.skipIf(!chromium)(`the portal: ${name}`, () => {
    let world: World
    beforeAll(async () => {
      world = await (shared ??= startWorld())
    })
    afterEach(() => world.receiver.answerWith({}))
    afterAll(() => refuseUndeclaredCodes(world.stack.processes.gateway))
    declare(() => world)
  })
}

async function startWorld(): Promise<World> {
  const receiver = await startHttpsReceiver()
  const stack = await startStack({
    receiver,
    simulator: true,
    environment: {
      WEBHOOK_BACKOFF_SECONDS: '600',
      RATE_LIMIT_PER_MINUTE: '100000',
      PROCESSOR_CLAIM: 'authorize',
    },
  })
  const windows = await startBrowser()
  return {
    stack,
    receiver,
    open: (options = {}) => windows.open(stack, options),
    vendor: (name = `Studio ${randomUUID().slice(0, 8)}`) => makeVendor(stack, name),
    key: async (scopes) =>
      created(
        await stack.api.post<{ id: string; key: string }>('/v1/api-keys', {
          body: { name: scopes.join(' and '), scopes },
        }),
      ),
  }
}

export type Vendor = Awaited<ReturnType<typeof makeVendor>>

export interface Licence {
  id: string
  key: string
  status: string
  plan_id: string
  external_ref: string
  restrictions: { domains?: string[]; max_activations?: number; max_seats?: number } | null
  expires_on: string | null
}

async function makeVendor({ api }: Stack, name: string) {
  const { id: appId } = created(await api.post<{ id: string }>('/v1/apps', { body: { name } }))
  const app = `/v1/apps/${appId}`
  return {
    appId,
    name,
    app,
    /** The address of a page with this application selected. */
    at: (page: string) => `${page}${page.includes('?') ? '&' : '?'}app=${appId}`,
    define: async (key: string, kind: 'feature' | 'limit', value: string, displayName = key) =>
      created(
        await api.post<{ id: string }>(`${app}/entitlement-defs`, {
          body: { key, kind, default: value, display_name: displayName },
        }),
      ),
    plan: async (planName = 'Pro', entitlements: { key: string; value: string }[] = []) =>
      created(
        await api.post<{ id: string; name: string }>(`${app}/plans`, {
          body: { name: planName, code: randomUUID(), entitlements },
        }),
      ),
    issue: async (planId: string, externalRef: string, fields: object = {}) =>
      created(
        await api.post<Licence>(`${app}/licences`, {
          headers: { 'idempotency-key': randomUUID() },
          body: { external_ref: externalRef, plan_id: planId, ...fields },
        }),
      ),
    activate: async ({ key }: Licence, host: string, fields: object = {}) => {
      const product = { licence_key: key, fingerprint: randomUUID(), host, product_version: '4.2.0' }
      created(await api.post('/v1/activations', { key: null, body: { ...product, ...fields } }))
    },
    price: async (planId: string, fields: object = {}) => {
      const body = { price_id: `price_${randomUUID()}`, amount: 4_900, currency: 'eur', mode: 'payment' }
      const set = await api.put(`${app}/plans/${planId}/price`, { body: { ...body, ...fields } })
      expect(set.status, JSON.stringify(set.body)).toBe(200)
    },
    /** A payment of €49.00 outside of the processor. */
    sell: async (planId: string, externalRef: string, fields: object = {}) => {
      const sale = { sale_id: randomUUID(), external_ref: externalRef, plan_id: planId }
      const payment = { amount: 4_900, currency: 'eur', occurred_at: new Date().toISOString() }
      const body = { ...sale, ...payment, ...fields }
      return created(await api.post<{ licence_id: string }>(`${app}/sale-events`, { body }))
    },
    endpoint: async (url: string, events = '*') =>
      created(
        await api.post<{ id: string; secret: string }>(`${app}/webhook-endpoints`, {
          body: { url, subscribed_events: events },
        }),
      ),
    /** Waits until this many deliveries exist and each was attempted once. */
    attempted: (count: number) =>
      eventually(async () => {
        const { body } = await api.get<{ data: { id: string; attempt_count: number }[] }>(
          `${app}/webhook-deliveries`,
        )
        expect(body.data.map(({ attempt_count: attempts }) => attempts)).toEqual(Array(count).fill(1))
        return body.data
      }),
    licence: async (id: string) => (await api.get<Licence>(`/v1/licences/${id}`)).body,
    licences: async () => (await api.get<{ data: Licence[] }>(`${app}/licences`)).body.data,
  }
}

function created<Body>(answer: ApiAnswer<Body>): Body {
  expect(answer.status, JSON.stringify(answer.body)).toBe(201)
  return answer.body
}
