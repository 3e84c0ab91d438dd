import { apiClient } from '@licensing/test-support/api-client'
import type { World } from '../load/world.ts'
import type { Outcome, Processor } from '../outcome.ts'
import type { StormStack, Vendor } from '../stack.ts'
import type { Databases } from './queries.ts'

type Seen = Pick<Outcome, 'startMs' | 'ready' | 'crashes'> & { world: World; accepted: Set<number> }

/** Reads all data of the system. Call it when no work is pending. */
export async function collect(
  stack: StormStack,
  databases: Databases,
  { world, accepted, ...seen }: Seen,
): Promise<Outcome> {
  const lists = await databases.lists()
  const ofEach = async <Item>(read: (get: Get, vendor: Vendor) => Promise<Item[]>) =>
    (await Promise.all(stack.vendors.map((vendor) => read(getterOf(stack, vendor), vendor)))).flat()
  return {
    ...lists,
    ...seen,
    accounts: stack.vendors,
    sent: world.sent,
    feedReads: world.feedReads,
    walks: world.walks,
    plans: await ofEach(readPlans),
    events: await ofEach(readEvents),
    apiKeys: await tryKeys(stack, world, lists.apiKeys),
    arrivals: arrivals(stack, accepted),
    processor: await readProcessor(stack.processor.url),
  }
}

type Get = <Body>(path: string) => Promise<Body>

/** Sends GET requests to a gateway directly, not through a proxy. */
function getterOf(stack: StormStack, { apiKey }: Vendor): Get {
  const api = apiClient(stack.gatewayUrl, apiKey)
  return async <Body>(path: string) => {
    const { status, body } = await api.get<Body>(path)
    if (status !== 200) throw new Error(`GET ${path} was answered with ${status} after the storm`)
    return body
  }
}

interface RawEnvelope {
  id: string
  type: string
  sequence: number
  created_at: string
  account_id: string
  application_id: string
  data: { object: Record<string, unknown> }
}

/** All events of the account's feed. */
async function readEvents(get: Get): Promise<Outcome['events']> {
  const all: RawEnvelope[] = []
  for (let after = 0; ;) {
    const page = await get<{ data: RawEnvelope[]; next_after: number }>(`/v1/events?after=${after}&limit=200`)
    if (page.data.length === 0) break
    all.push(...page.data)
    after = page.next_after
  }
  return all.map((envelope) => ({
    ...envelope,
    createdAt: Date.parse(envelope.created_at),
    accountId: envelope.account_id,
    appId: envelope.application_id,
    object: envelope.data.object,
    body: JSON.stringify(envelope),
  }))
}

type RawPlan = Omit<Outcome['plans'][number], 'activeLicences'> & { active_licences: number }

async function readPlans(get: Get, { appId }: Vendor): Promise<Outcome['plans']> {
  const all: RawPlan[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: { data: RawPlan[]; next_cursor: string | null } = await get(
      `/v1/apps/${appId}/plans?limit=200${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
    )
    all.push(...page.data)
    cursor = page.next_cursor
  }
  return all.map((plan) => ({ ...plan, appId, activeLicences: plan.active_licences }))
}

/** Tries the vendors' keys of which the storm knows the text: whether any gateway still accepts them. */
async function tryKeys(
  stack: StormStack,
  { sent }: World,
  keys: Outcome['apiKeys'],
): Promise<Outcome['apiKeys']> {
  const made = sent.filter(({ asked, answered }) => asked.do === 'create key' && answered === 'acknowledged')
  const texts = new Map(made.map(({ body }) => [body['id'], String(body['key'])]))
  const accepts = async (key: string) => {
    const answers = stack.gatewayUrls.map((url) => apiClient(url, key).get('/v1/events?limit=1'))
    return (await Promise.all(answers)).some(({ status }) => status !== 401)
  }
  const ours = new Set(stack.vendors.map(({ accountId }) => accountId))
  return Promise.all(
    keys
      .filter(({ accountId }) => ours.has(accountId))
      .map(async (key) => {
        const text = texts.get(key.id)
        return { ...key, accepted: text === undefined ? null : await accepts(text) }
      }),
  )
}

function arrivals({ receiver, links }: StormStack, accepted: Set<number>): Outcome['arrivals'] {
  return receiver.requests.map(({ path, headers, body }, index) => {
    // The path names the link to the receiver. The endpoint's URL has the port of that link.
    const name = path.split('/')[1]!.replace('dead', 'steady')
    return {
      url: `https://localhost:${links.get(`notifier>${name}`)!.port}${path}`,
      eventId: String(headers['webhook-id']),
      body: body.toString('utf8'),
      signature: String(headers['webhook-signature']),
      header: headers['x-storm'] as string | undefined,
      accepted: accepted.has(index),
    }
  })
}

type Stored<Item> = { object: Item }[]
type Charged = { id: string; status: string; charge: string; amount: number }

interface State {
  collections: {
    sessions: Stored<{ payment_status: string; amount_total: number; metadata: Record<string, string> }>
    invoices: Stored<{ id: string; status: string; billing_reason: string; amount_paid: number }>
    refunds: Stored<Charged>
    subscriptions: Stored<{ status: string; metadata: Record<string, string> }>
    disputes: Stored<Charged>
  }
}

/** Reads the payments, refunds and disputes at the processor. */
async function readProcessor(url: string): Promise<Processor> {
  const response = await fetch(`${url}/_sim/state`, { signal: AbortSignal.timeout(10_000) })
  const { sessions, invoices, refunds, subscriptions, disputes } = ((await response.json()) as State)
    .collections
  const chosen = <Item, Result>(
    stored: Stored<Item>,
    is: (item: Item) => boolean,
    make: (item: Item) => Result,
  ) =>
    stored
      .map(({ object }) => object)
      .filter(is)
      .map(make)
  const returned = ({ id, charge, amount }: Charged) => ({ ref: id, chargeRef: charge, amount })
  const sessionOf = ({ metadata }: { metadata: Record<string, string> }) => metadata['licensing_session_id']!
  return {
    paid: chosen(
      sessions,
      (each) => each.payment_status === 'paid',
      (each) => ({ sessionId: sessionOf(each), amount: each.amount_total }),
    ),
    renewals: chosen(
      invoices,
      (each) => each.status === 'paid' && each.billing_reason !== 'subscription_create',
      (each) => ({ invoiceRef: each.id, amount: each.amount_paid }),
    ),
    refunds: chosen(refunds, ({ status }) => status === 'succeeded', returned),
    chargebacks: chosen(disputes, ({ status }) => !status.startsWith('warning'), returned),
    ended: chosen(subscriptions, ({ status }) => status === 'canceled', sessionOf),
  }
}
