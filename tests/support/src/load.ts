import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import { apiClient, type ApiAnswer, type ApiClient } from './api-client.ts'
import type { HttpsReceiver } from './https-receiver.ts'
import { eventually } from './poll.ts'
import type { Stack } from './stack-shape.ts'

/** Requests of vendors until `stop`, to all gateways in turn. */
export interface Load extends AsyncDisposable {
  /** Requests without a 2xx answer. The status is 0 if there was no answer. */
  readonly failures: { what: string; status: number; detail: string }[]
  /** The number of requests so far. */
  readonly requests: number
  /** The expected events of each licence, in order: one for each verb with a 2xx answer. */
  readonly events: ReadonlyMap<string, string[]>
  /** Waits for `count` more requests. */
  more(count: number): Promise<void>
  /** Runs `work` while no request is sent to this gateway, as a load balancer does before a gateway stops. */
  without(gatewayUrl: string, work: () => Promise<void>): Promise<void>
  /** Ends the load. After that, `expectNothingLost` must hold. */
  stop(): Promise<void>
}

// A pause between two requests of a worker. Without it the load would use the whole machine, in some tests for minutes.
const pauseMs = 30
const eventOf = {
  suspend: 'licence.suspended',
  reactivate: 'licence.reactivated',
  revoke: 'licence.revoked',
} as const

/**
 * Starts a load. Each worker issues licences and runs verbs on them, with calls of every service in between. An endpoint at
 * the receiver gets every event. If the answer to a verb was lost, its licence is not used again, because the verb may have been executed.
 */
export async function startLoad(stack: Stack, receiver: HttpsReceiver, workers = 4): Promise<Load> {
  const app = `/v1/apps/${stack.appId}`
  const plan = await stack.api.post<{ id: string }>(`${app}/plans`, { body: { name: 'Load', code: 'load' } })
  const endpoint = await stack.api.post(`${app}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: '*' },
  })
  expect([plan.status, endpoint.status]).toEqual([201, 201])
  const planPath = `${app}/plans/${plan.body.id}`

  const rotation = stack.gatewayUrls.map((url) => ({ url, api: apiClient(url, stack.apiKey), open: 0 }))
  const out = new Set<string>()
  const events = new Map<string, string[]>()
  const failures: Load['failures'] = []
  const state = { running: true, requests: 0 }

  const call = async <Body>(what: string, send: (api: ApiClient) => Promise<ApiAnswer<Body>>) => {
    await pause(pauseMs)
    const usable = rotation.filter(({ url }) => !out.has(url))
    const gateway = usable[state.requests++ % usable.length]!
    gateway.open++
    try {
      const answer = await send(gateway.api)
      if (answer.status < 300) return answer.body
      failures.push({ what, status: answer.status, detail: JSON.stringify(answer.body) })
    } catch (error) {
      failures.push({ what, status: 0, detail: `${String(error)} (${String((error as Error).cause)})` })
    } finally {
      gateway.open--
    }
    return undefined
  }

  const worker = async () => {
    for (let round = 0; state.running; round += 1) {
      const licence = await call('issue', (api) =>
        api.post<{ id: string }>(`${app}/licences`, {
          headers: { 'idempotency-key': randomUUID() },
          body: { external_ref: randomUUID(), plan_id: plan.body.id },
        }),
      )
      if (!licence) continue
      const done: string[] = []
      events.set(licence.id, done)
      for (const verb of ['suspend', 'reactivate', 'suspend', 'revoke'] as const) {
        if (!(await call(verb, (api) => api.post(`/v1/licences/${licence.id}/${verb}`)))) break
        done.push(eventOf[verb])
      }
      await call('plan', (api) => api.get(planPath))
      await call('change of a plan', (api) => api.patch(planPath, { body: { name: `Load ${round}` } }))
      await call('fees', (api) => api.get('/v1/fees'))
      await call('events', (api) => api.get('/v1/events?after=0&limit=1'))
    }
  }
  const running = Promise.all(Array.from({ length: workers }, worker))
  const stop = async () => {
    state.running = false
    await running
  }

  return {
    failures,
    events,
    get requests() {
      return state.requests
    },
    more: async (count) => {
      const until = state.requests + count
      await eventually(() => state.requests >= until)
    },
    without: async (gatewayUrl, work) => {
      out.add(gatewayUrl)
      const gateway = rotation.find(({ url }) => url === gatewayUrl)
      await eventually(() => gateway?.open === 0)
      await work()
      out.delete(gatewayUrl)
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

interface Envelope {
  id: string
  type: string
  sequence: number
  data: { object: { licence_id: string } }
}

/**
 * Expects that no acknowledged change is lost: every verb's event is in the feed, the events of a licence are in the order of
 * its verbs, the sequence has no gap or duplicate, and every event arrived at the receiver.
 */
export async function expectNothingLost(
  stack: Stack,
  receiver: HttpsReceiver,
  { events }: Load,
): Promise<void> {
  const answered = [...events.values()].flat().length
  const feed = await eventually(
    async () => {
      const all = await feedOf(stack)
      expect(all.length).toBeGreaterThanOrEqual(answered)
      return all
    },
    { intervalMs: 250 },
  )
  expect(feed.map(({ sequence }) => sequence)).toEqual(feed.map((_, at) => at + 1))
  const byLicence = Map.groupBy(feed, ({ data }) => data.object.licence_id)
  for (const [licenceId, expected] of events) {
    const types = (byLicence.get(licenceId) ?? []).map(({ type }) => type)
    expect(types.slice(0, expected.length), licenceId).toEqual(expected)
    // If the answer to the last verb was lost, there may be one more event.
    expect(types.length - expected.length, licenceId).toBeLessThanOrEqual(1)
  }
  await eventually(
    () => {
      const arrived = new Set(receiver.requests.map(({ headers }) => headers['webhook-id']))
      expect(feed.filter(({ id }) => !arrived.has(id)).map(({ sequence }) => sequence)).toEqual([])
    },
    { intervalMs: 250 },
  )
}

/** All events of the account's feed. */
async function feedOf({ api }: Stack): Promise<Envelope[]> {
  const all: Envelope[] = []
  for (;;) {
    const page = await api.get<{ data: Envelope[] }>(
      `/v1/events?after=${all.at(-1)?.sequence ?? 0}&limit=200`,
    )
    expect(page.status).toBe(200)
    if (page.body.data.length === 0) return all
    all.push(...page.body.data)
  }
}
