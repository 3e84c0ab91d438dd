import { apiClient } from '@licensing/test-support/api-client'
import type { Envelope, Outcome, Plan, Processor } from '../outcome.ts'
import type { StormStack } from '../stack/storm-stack.ts'
import type { Vendor } from '../stack/vendors.ts'

interface RawEnvelope {
  id: string
  type: string
  sequence: number
  created_at: string
  account_id: string
  application_id: string
  data: { object: Record<string, unknown> }
}

type Get = (path: string) => Promise<Record<string, unknown>>

/** Sends GET requests to a gateway directly, not through a proxy. */
function getterOf(stack: StormStack, vendor: Vendor): Get {
  const api = apiClient(stack.directGatewayUrls[0]!, vendor.apiKey)
  return async (path) => {
    const answer = await api.get(path)
    if (answer.status !== 200)
      throw new Error(`GET ${path} was answered with ${answer.status} after the storm`)
    return answer.body
  }
}

/** All events of the account's feed. */
export async function readEvents(stack: StormStack, vendor: Vendor): Promise<Envelope[]> {
  const get = getterOf(stack, vendor)
  const all: Envelope[] = []
  for (let after = 0; ;) {
    const page = await get(`/v1/events?after=${after}&limit=200`)
    const data = page['data'] as RawEnvelope[]
    if (data.length === 0) return all
    all.push(
      ...data.map((envelope) => ({
        id: envelope.id,
        type: envelope.type,
        sequence: envelope.sequence,
        createdAt: Date.parse(envelope.created_at),
        accountId: envelope.account_id,
        appId: envelope.application_id,
        object: envelope.data.object,
        body: JSON.stringify(envelope),
      })),
    )
    after = page['next_after'] as number
  }
}

async function rows(get: Get, path: string): Promise<Record<string, unknown>[]> {
  const all: Record<string, unknown>[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const page = await get(`${path}?limit=200${cursor && `&cursor=${encodeURIComponent(cursor)}`}`)
    all.push(...(page['data'] as Record<string, unknown>[]))
    cursor = page['next_cursor'] as string | null
  }
  return all
}

export async function readPlans(stack: StormStack, vendor: Vendor): Promise<Plan[]> {
  const plans = await rows(getterOf(stack, vendor), `/v1/apps/${vendor.appId}/plans`)
  return plans.map((plan) => ({
    id: plan['id'] as string,
    appId: vendor.appId,
    code: plan['code'] as string,
    name: plan['name'] as string,
    status: plan['status'] as string,
    activeLicences: plan['active_licences'] as number,
  }))
}

/** Whether any gateway still accepts a key. */
async function accepts(stack: StormStack, key: string): Promise<boolean> {
  const statuses = await Promise.all(
    stack.directGatewayUrls.map(async (url) => (await apiClient(url, key).get('/v1/events?limit=1')).status),
  )
  return statuses.some((status) => status !== 401)
}

/** Tries the keys of which the storm knows the text. */
export async function tryKeys(
  stack: StormStack,
  keys: Omit<Outcome['apiKeys'][number], 'accepted'>[],
  texts: Map<string, string>,
): Promise<Outcome['apiKeys']> {
  return Promise.all(
    keys.map(async (key) => {
      const text = texts.get(key.id)
      return { ...key, accepted: text === undefined ? null : await accepts(stack, text) }
    }),
  )
}

interface Stored<Item> {
  account: string | null
  object: Item
}

interface State {
  collections: {
    sessions: Stored<{
      payment_status: string
      amount_total: number
      invoice: string | null
      metadata: Record<string, string>
    }>[]
    invoices: Stored<{ id: string; status: string; billing_reason: string; amount_paid: number }>[]
    refunds: Stored<{ id: string; status: string; charge: string; amount: number }>[]
    subscriptions: Stored<{ status: string; metadata: Record<string, string> }>[]
    disputes: Stored<{ id: string; status: string; charge: string; amount: number }>[]
  }
}

/** Reads the payments, refunds and disputes at the processor. */
export async function readProcessor(url: string): Promise<Processor> {
  const response = await fetch(`${url}/_sim/state`, { signal: AbortSignal.timeout(10_000) })
  const { collections } = (await response.json()) as State
  const objects = <Item>(stored: Stored<Item>[]) => stored.map(({ object }) => object)
  const chargeOf = ({ id, charge, amount }: { id: string; charge: string; amount: number }) => ({
    ref: id,
    chargeRef: charge,
    amount,
  })
  return {
    paid: objects(collections.sessions)
      .filter(({ payment_status: status }) => status === 'paid')
      .map((session) => ({
        sessionId: session.metadata['licensing_session_id']!,
        amount: session.amount_total,
      })),
    renewals: objects(collections.invoices)
      .filter((invoice) => invoice.status === 'paid' && invoice.billing_reason !== 'subscription_create')
      .map((invoice) => ({ invoiceRef: invoice.id, amount: invoice.amount_paid })),
    refunds: objects(collections.refunds)
      .filter(({ status }) => status === 'succeeded')
      .map(chargeOf),
    chargebacks: objects(collections.disputes)
      .filter(({ status }) => !status.startsWith('warning'))
      .map(chargeOf),
    ended: objects(collections.subscriptions)
      .filter(({ status }) => status === 'canceled')
      .map(({ metadata }) => metadata['licensing_session_id']!),
  }
}
