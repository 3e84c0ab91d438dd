import { apiClient, type ApiAnswer } from '@licensing/test-support/api-client'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'

interface WebhookEvent {
  id: string
  type: string
  sequence: number
  data: { object: { licence_id: string } }
}

/** Requests that go on until they are stopped, over every gateway that is in rotation. */
export interface Load {
  /** What was refused or broke: one line each. */
  readonly failures: string[]
  /** Answered requests so far. */
  readonly answered: number
  /** Runs `work` while no request goes to this gateway: what a load balancer does before it is stopped. */
  without(gatewayUrl: string, work: () => Promise<void>): Promise<void>
  /** Returns when `count` more requests were answered. */
  more(count: number): Promise<void>
  /** Ends it when each worker has done what it was at; the changes that were answered, by licence, in order. */
  stop(): Promise<Map<string, string[]>>
}

// Between two requests of a worker. Without it they take the whole machine, for the minutes that some tests last.
const pauseMs = 30

/**
 * Each worker has a licence of its own that it suspends and reactivates in turn, and calls of every service between.
 *
 * @param stack its receiver has to be an endpoint of the account's application
 */
export async function startLoad(stack: Stack, workers = 4): Promise<Load> {
  const rotation = stack.gatewayUrls.map((url) => ({ url, api: apiClient(url, stack.apiKey), open: 0 }))
  const out = new Set<string>()
  const changes = new Map<string, string[]>()
  const failures: string[] = []
  let answered = 0
  let turn = 0
  let stopping = false

  const call = async <Body>(
    what: string,
    send: (api: Stack['api']) => Promise<ApiAnswer<Body>>,
    expected: number,
  ): Promise<Body | undefined> => {
    await pause(pauseMs)
    const usable = rotation.filter(({ url }) => !out.has(url))
    const gateway = usable[turn++ % usable.length]!
    gateway.open++
    try {
      const answer = await send(gateway.api)
      answered++
      if (answer.status === expected) return answer.body
      failures.push(`${what}: ${answer.status} ${JSON.stringify(answer.body)}`)
    } catch (error) {
      failures.push(`${what}: ${String(error)} (${String((error as Error).cause)})`)
    } finally {
      gateway.open--
    }
    return undefined
  }
  const app = `/v1/apps/${stack.appId}`
  const plan = await stack.api.post<{ id: string }>(`${app}/plans`, {
    body: { name: 'Load', code: `load-${randomUUID().slice(0, 8)}` },
  })
  expect(plan.status).toBe(201)
  const planPath = `${app}/plans/${plan.body.id}`

  const work = async () => {
    const licence = await call(
      'issue',
      (api) =>
        api.post<{ id: string }>(`${app}/licences`, {
          headers: { 'idempotency-key': randomUUID() },
          body: { external_ref: randomUUID(), plan_id: plan.body.id },
        }),
      201,
    )
    if (licence === undefined) return
    const done: string[] = []
    changes.set(licence.id, done)
    for (let round = 0; !stopping; round++) {
      const [verb, status] = round % 2 === 0 ? ['suspend', 'suspended'] : ['reactivate', 'reactivated']
      const changed = await call(verb, (api) => api.post(`/v1/licences/${licence.id}/${verb}`), 200)
      if (changed === undefined) return
      done.push(`licence.${status}`)
      await call('plan', (api) => api.get(planPath), 200)
      await call('change of a plan', (api) => api.patch(planPath, { body: { name: `Load ${round}` } }), 200)
      await call('fees', (api) => api.get('/v1/fees'), 200)
      await call('events', (api) => api.get('/v1/events?after=0&limit=1'), 200)
    }
  }
  const running = Array.from({ length: workers }, work)

  return {
    failures,
    get answered() {
      return answered
    },
    without: async (gatewayUrl, during) => {
      out.add(gatewayUrl)
      const gateway = rotation.find(({ url }) => url === gatewayUrl)
      await eventually(() => gateway?.open === 0)
      await during()
      out.delete(gatewayUrl)
    },
    more: async (count) => {
      const until = answered + count
      await eventually(
        () => expect(failures.length > 0 || answered >= until, `${answered} of ${until}`).toBe(true),
        { timeoutMs: 60_000 },
      )
    },
    stop: async () => {
      stopping = true
      await Promise.all(running)
      return changes
    },
  }
}

/** No event lost, doubled or out of order, in the account's own list and at the receiver. */
export async function expectEveryEvent(
  stack: Stack,
  receiver: HttpsReceiver,
  changes: Map<string, string[]>,
): Promise<void> {
  const count = [...changes.values()].reduce((sum, done) => sum + done.length, 0)
  const events = await eventually(
    async () => {
      const all = await allEvents(stack)
      const ours = all.filter(({ data }) => changes.has(data.object.licence_id))
      expect(ours).toHaveLength(count)
      expect(all.map(({ sequence }) => sequence)).toEqual(all.map((_, at) => at + 1))
      return ours
    },
    { intervalMs: 250 },
  )
  for (const [licence, done] of changes) {
    const seen = events.filter(({ data }) => data.object.licence_id === licence)
    expect(seen.map(({ type }) => type)).toEqual(done)
  }
  await eventually(
    () => {
      const delivered = new Set(receiver.requests.map(({ headers }) => headers['webhook-id']))
      expect(events.filter(({ id }) => !delivered.has(id))).toEqual([])
    },
    { intervalMs: 250 },
  )
}

async function allEvents({ api }: Stack): Promise<WebhookEvent[]> {
  const all: WebhookEvent[] = []
  for (;;) {
    const after = all.at(-1)?.sequence ?? 0
    const page = await api.get<{ data: WebhookEvent[] }>(`/v1/events?after=${after}&limit=200`)
    expect(page.status).toBe(200)
    if (page.body.data.length === 0) return all
    all.push(...page.body.data)
  }
}
