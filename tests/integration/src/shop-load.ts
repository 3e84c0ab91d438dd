import { connect } from '@licensing/database/connect'
import type { ApiAnswer } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'

/** Acknowledgements of the API: nothing in them changes afterwards. */
interface Acknowledged {
  /** The last status of each licence. */
  licences: Map<string, string>
  /** The ids of shops' sales, and the customers of refunded checkouts. */
  sales: Set<string>
  refunded: Set<string>
  retiredPlans: Set<string>
}

export interface ShopLoad extends AsyncDisposable {
  /** A copy of what the API has acknowledged so far. */
  acknowledged(): Acknowledged
  /** Waits until each worker has finished this many more rounds. */
  more(rounds: number): Promise<void>
  stop(): Promise<void>
  /** The plan that all sales and licences are of, except those of archived plans. */
  readonly planId: string
}

interface Row {
  id: string
  status: string
  licence_id: string
  external_ref: string
  sale_id: string
  charge_ref: string
  plan_id: string
}

const pauseMs = 50

/**
 * Starts workers that issue and suspend licences, report sales of another shop, sell and refund at the processor, and archive
 * plans. A request that fails is repeated with the same `Idempotency-Key` until it succeeds.
 */
export async function startShopLoad(stack: Stack): Promise<ShopLoad> {
  const { api, appId, simulator } = stack
  const app = `/v1/apps/${appId}`
  const state = { running: true }
  const done: Acknowledged = {
    licences: new Map(),
    sales: new Set(),
    refunded: new Set(),
    retiredPlans: new Set(),
  }

  /** @returns undefined if the load ended before the request succeeded */
  const post = async <Body>(path: string, body?: object): Promise<Body | undefined> => {
    const headers = { 'idempotency-key': randomUUID() }
    while (state.running) {
      await pause(pauseMs)
      const answer = await api.post<Body>(path, { headers, body }).catch(() => undefined)
      if (answer !== undefined && answer.status < 300) return answer.body
      if (answer !== undefined && answer.status < 500) throw new Error(`${path}: ${JSON.stringify(answer)}`)
    }
    return undefined
  }
  const atProcessor = async (action: string, body: object) => {
    const response = await fetch(`${simulator!.url}/_sim/${action}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(response.status, await response.text()).toBe(200)
  }
  const newPlan = async (name: string) => {
    const answer = await api.post<Row>(`${app}/plans`, { body: { name, code: `p-${randomUUID()}` } })
    expect(answer.status).toBe(201)
    return answer.body.id
  }
  const issue = (planId: string) =>
    post<Row>(`${app}/licences`, { external_ref: randomUUID(), plan_id: planId })

  const planId = await newPlan('Sold')
  const connected = await api.put('/v1/processor', {
    body: { processor: 'stripe', connected_account: `acct_1${randomUUID().replaceAll('-', '')}` },
  })
  const price = { price_id: `price_${randomUUID()}`, amount: 4_900, currency: 'eur', mode: 'payment' }
  const priced = await api.put(`${app}/plans/${planId}/price`, { body: price })
  expect([connected.status, priced.status]).toEqual([200, 200])

  const rounds = {
    suspend: async () => {
      const licence = await issue(planId)
      if (licence && (await post(`/v1/licences/${licence.id}/suspend`))) {
        done.licences.set(licence.id, 'suspended')
      }
    },
    sell: async () => {
      const sale = { sale_id: randomUUID(), external_ref: randomUUID(), plan_id: planId, amount: 100 }
      const sold = await post<Row>(`${app}/sale-events`, {
        ...sale,
        currency: 'eur',
        occurred_at: new Date().toISOString(),
      })
      if (sold?.status !== 'provisioned') return
      done.sales.add(sale.sale_id)
      done.licences.set(sold.licence_id, 'active')
    },
    refund: async () => {
      const customer = randomUUID()
      const urls = { success_url: 'https://shop.example/thanks', cancel_url: 'https://shop.example/' }
      const order = { plan_id: planId, external_ref: customer, ...urls }
      const session = await post<Row & { url: string }>(`${app}/checkout-sessions`, order)
      if (!session) return
      const charge = new URL(session.url).pathname.split('/').at(-1)!
      await atProcessor('pay', { session: charge })
      await atProcessor('refund', { charge })
      const revoked = async () => {
        const path = `${app}/licences?external_ref=${customer}`
        const answer = await api.get<{ data: Row[] }>(path).catch(() => undefined)
        return answer?.body.data?.[0]?.status === 'revoked' && answer.body.data[0]
      }
      const licence = await eventually(async () => (await revoked()) || !state.running)
      if (typeof licence !== 'object') return
      done.refunded.add(customer)
      done.licences.set(licence.id, 'revoked')
    },
    archive: async () => {
      const plan = await post<Row>(`${app}/plans`, { name: 'Archived', code: `p-${randomUUID()}` })
      const licence = plan && (await issue(plan.id))
      if (!licence || !(await post(`${app}/plans/${plan.id}/archive`))) return
      done.retiredPlans.add(plan.id)
      done.licences.set(licence.id, 'suspended')
    },
  }
  const counts = new Map<string, number>()
  const running = Promise.all(
    Object.entries(rounds).map(async ([name, round]) => {
      while (state.running) {
        await round()
        counts.set(name, (counts.get(name) ?? 0) + 1)
      }
    }),
  )
  // A failure is thrown by `stop`, and by `more`.
  running.catch(() => (state.running = false))
  const stop = async () => {
    state.running = false
    await running
  }
  return {
    planId,
    acknowledged: () => structuredClone(done),
    more: async (more) => {
      const before = new Map(counts)
      await eventually(() => {
        if (!state.running) return true
        const isDone = (name: string) => (counts.get(name) ?? 0) >= (before.get(name) ?? 0) + more
        return Object.keys(rounds).every(isDone)
      })
      if (!state.running) await running
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function rowsOf(stack: Stack, path: string): Promise<Row[]> {
  const rows: Row[] = []
  for (let cursor = ''; ;) {
    const page = await stack.api.get<{ data: Row[]; next_cursor: string | null }>(
      `/v1/apps/${stack.appId}/${path}${path.includes('?') ? '&' : '?'}limit=100${cursor}`,
    )
    expect(page.status).toBe(200)
    rows.push(...page.body.data)
    if (page.body.next_cursor === null) return rows
    cursor = `&cursor=${encodeURIComponent(page.body.next_cursor)}`
  }
}

const twice = (values: string[]) => values.filter((value, at) => values.indexOf(value) !== at)

/**
 * Expects that the services agree about everything that they remember, and that they remember everything that had been
 * acknowledged when the backup began. Archives the plan of the load.
 */
export async function expectRestored(stack: Stack, load: ShopLoad, before: Acknowledged): Promise<void> {
  const { api, appId } = stack
  // Billing notices within 30 seconds that licensing was restored to an earlier time.
  await eventually(() => expectSoldLicences(stack, before), { timeoutMs: 120_000 })
  const licences = await rowsOf(stack, 'licences')
  const statusOf = new Map(licences.map(({ id, status }) => [id, status]))
  const forgotten = [...before.licences].filter(([id, status]) => statusOf.get(id) !== status)
  expect(forgotten.map(([id, status]) => [id, status, statusOf.get(id)])).toEqual([])
  expect(twice(licences.map(({ external_ref }) => external_ref))).toEqual([])

  await eventually(async () => {
    const [inCatalog, inLicensing] = await Promise.all([
      planStatuses(stack, 'catalog'),
      planStatuses(stack, 'licensing'),
    ])
    expect(inLicensing).toEqual(inCatalog)
    for (const id of before.retiredPlans) expect(inCatalog.get(id)).toBe('retired')
  })
  const now = await rowsOf(stack, 'licences')
  const active = now.filter(({ plan_id: plan, status }) => plan === load.planId && status === 'active')
  const archived: ApiAnswer<{ suspended_licences?: number }> = await api.post(
    `/v1/apps/${appId}/plans/${load.planId}/archive`,
  )
  expect(archived).toMatchObject({ status: 200, body: { suspended_licences: active.length } })
  const refused = await api.post(`/v1/apps/${appId}/licences`, {
    headers: { 'idempotency-key': randomUUID() },
    body: { external_ref: randomUUID(), plan_id: load.planId },
  })
  expect(refused).toMatchObject({ status: 409, body: { code: 'plan_archived' } })
  await expectFeed(stack, active, before)
}

/** Every licence that billing names exists with the status of its payments, and every sale and refund exists once. */
async function expectSoldLicences(stack: Stack, before: Acknowledged): Promise<void> {
  const [sales, sessions, payments, refunds, licences] = await Promise.all(
    ['sale-events', 'checkout-sessions', 'payments', 'refunds', 'licences'].map((path) =>
      rowsOf(stack, path),
    ),
  )
  const statusOf = new Map(licences!.map(({ id, status }) => [id, status]))
  const refunded = new Set(refunds!.map(({ licence_id: id }) => id))
  const expected = [
    ...sales!.filter(({ status }) => status === 'provisioned').map(({ licence_id: id }) => [id, 'active']),
    ...payments!
      .filter(({ charge_ref }) => charge_ref)
      .map(({ licence_id: id }) => [id, refunded.has(id) ? 'revoked' : 'active']),
  ]
  expect(expected.map(([id]) => [id, statusOf.get(id!)])).toEqual(expected)
  expect(twice(sales!.map((row) => row.sale_id))).toEqual([])
  expect(twice(refunds!.map((row) => row.charge_ref))).toEqual([])
  const saleIds = new Set(sales!.map((row) => row.sale_id))
  expect([...before.sales].filter((id) => !saleIds.has(id))).toEqual([])
  const customers = new Set(
    sessions!.filter(({ licence_id: id }) => refunded.has(id)).map((row) => row.external_ref),
  )
  expect([...before.refunded].filter((customer) => !customers.has(customer))).toEqual([])
}

async function planStatuses(stack: Stack, service: 'catalog' | 'licensing'): Promise<Map<string, string>> {
  const sql = connect(stack.databaseUrls[service], { name: 'runbook-test', max: 1 })
  try {
    const rows = await sql<{ id: string; status: string }[]>`select id, status from plans order by id`
    return new Map(rows.map(({ id, status }) => [id, status]))
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** The sequence has no gap, and each suspension is in it once. */
async function expectFeed({ api }: Stack, archived: Row[], before: Acknowledged): Promise<void> {
  const suspended = [...before.licences].filter(([, status]) => status === 'suspended').map(([id]) => id)
  const expected = [...suspended, ...archived.map(({ id }) => id)]
  await eventually(async () => {
    type Event = { type: string; sequence: number; data: { object: { licence_id: string } } }
    const feed: Event[] = []
    for (let count = -1; feed.length > count;) {
      count = feed.length
      const page = await api.get<{ data: Event[] }>(
        `/v1/events?after=${feed.at(-1)?.sequence ?? 0}&limit=200`,
      )
      feed.push(...page.body.data)
    }
    expect(feed.map(({ sequence }) => sequence)).toEqual(feed.map((_, at) => at + 1))
    const heard = feed
      .filter(({ type }) => type === 'licence.suspended')
      .map(({ data }) => data.object.licence_id)
    expect(twice(heard)).toEqual([])
    expect(expected.filter((id) => !heard.includes(id))).toEqual([])
  })
}
