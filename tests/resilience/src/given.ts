import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'

interface Body {
  id: string
}

/** A plan to issue on and an endpoint that hears of everything. */
export async function givenShop(stack: Stack, receiver: HttpsReceiver): Promise<{ planId: string }> {
  const plan = await stack.api.post<Body>(`/v1/apps/${stack.appId}/plans`, {
    body: { name: 'Pro', code: 'pro' },
  })
  const endpoint = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: '*' },
  })
  expect([plan.status, endpoint.status]).toEqual([201, 201])
  return { planId: plan.body.id }
}

/** What was answered with 2xx: the verbs done to each licence, in order. */
export interface Done {
  verbs: Map<string, string[]>
  /** Requests that were not answered with 2xx, by status; 0 where there was no answer. */
  refused: Map<number, number>
  requests: number
  slowestMs: number
}

// Between two requests of a worker. Without it they take the whole machine, for the minutes that some tests last.
const pauseMs = 30

/**
 * Vendors at work: each worker issues a licence and takes it through its lifecycle, over and over, until stopped. Only
 * what was answered counts as done. A verb whose answer was lost may have happened: its licence is left alone then.
 */
export function startLoad(
  stack: Stack,
  planId: string,
  workers: number,
): { stop(): Promise<Done>; done: Done } {
  const done: Done = { verbs: new Map(), refused: new Map(), requests: 0, slowestMs: 0 }
  const state = { running: true, next: 0 }
  const call = async (path: string, request: object = {}) => {
    await pause(pauseMs)
    const startedMs = performance.now()
    const answer = await stack.api.post<Body>(path, request).catch(() => undefined)
    done.requests += 1
    done.slowestMs = Math.max(done.slowestMs, performance.now() - startedMs)
    const status = answer?.status ?? 0
    if (status >= 300 || status === 0) done.refused.set(status, (done.refused.get(status) ?? 0) + 1)
    return status >= 200 && status < 300 ? answer : undefined
  }
  const worker = async () => {
    while (state.running) {
      const number = state.next++
      const licence = await call(`/v1/apps/${stack.appId}/licences`, {
        headers: { 'idempotency-key': `load-${number}` },
        body: { external_ref: `customer-${number}`, plan_id: planId },
      })
      if (!licence) continue
      const verbs: string[] = []
      done.verbs.set(licence.body.id, verbs)
      for (const verb of ['suspend', 'reactivate', 'suspend', 'revoke']) {
        if (!(await call(`/v1/licences/${licence.body.id}/${verb}`))) break
        verbs.push(verb)
      }
    }
  }
  const running = Promise.all(Array.from({ length: workers }, worker))
  return {
    done,
    stop: async () => {
      state.running = false
      await running
      return done
    },
  }
}

const events: Record<string, string> = {
  suspend: 'licence.suspended',
  reactivate: 'licence.reactivated',
  revoke: 'licence.revoked',
}

interface Envelope {
  id: string
  type: string
  sequence: number
  data: { object: { licence_id: string } }
}

/** The account's whole feed. */
async function feedOf(stack: Stack): Promise<Envelope[]> {
  const all: Envelope[] = []
  for (let after = 0; ;) {
    const page = await stack.api.get<{ data: Envelope[]; next_after: number }>(
      `/v1/events?after=${after}&limit=200`,
    )
    expect(page.status).toBe(200)
    all.push(...page.body.data)
    if (page.body.data.length === 0) return all
    after = page.body.next_after
  }
}

/**
 * Nothing that was answered is missing: every verb's event is in the feed, each licence's events in the order of its
 * verbs, the sequence without gap or twin, and every event arrived at the receiver.
 */
export async function expectNothingLost(stack: Stack, receiver: HttpsReceiver, done: Done): Promise<void> {
  const answered = [...done.verbs.values()].flat().length
  await eventually(async () => expect((await feedOf(stack)).length).toBeGreaterThanOrEqual(answered), {
    intervalMs: 500,
  })
  const feed = await feedOf(stack)
  expect(feed.map(({ sequence }) => sequence)).toEqual(feed.map((_, at) => at + 1))
  const byLicence = Map.groupBy(feed, ({ data }) => data.object.licence_id)
  for (const [licenceId, verbs] of done.verbs) {
    const types = (byLicence.get(licenceId) ?? []).map(({ type }) => type)
    // A verb whose answer was lost may have one event more at the end.
    expect(types.slice(0, verbs.length), licenceId).toEqual(verbs.map((verb) => events[verb]))
    expect(types.length - verbs.length, licenceId).toBeLessThanOrEqual(1)
  }
  await eventually(
    () => {
      const arrived = new Set(receiver.requests.map(({ headers }) => headers['webhook-id']))
      expect(feed.filter(({ id }) => !arrived.has(id)).map(({ sequence }) => sequence)).toEqual([])
    },
    { intervalMs: 250 },
  )
}
