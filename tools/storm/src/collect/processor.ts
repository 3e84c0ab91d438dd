import type { Processor } from '../outcome.ts'

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

/** What the processor has on its books. */
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
