import { Stripe } from 'stripe'
import type { Harness } from './harness.ts'
import { webhookSecret } from './surroundings.ts'
import type { Vendor } from './vendor.ts'

interface ListedEvent {
  id: string
  account?: string
  type: string
  created: number
  data: { object: { id: string } }
}

/** The vendor's events as the processor made them, in their order. */
export async function eventsAt(
  { simulator }: Pick<Harness, 'simulator'>,
  vendor: Vendor,
): Promise<ListedEvent[]> {
  const found: ListedEvent[] = []
  for (let after = ''; ; after = found.at(-1)!.id) {
    const query = new URLSearchParams({ limit: '100', ...(after && { starting_after: after }) })
    const answer = await fetch(`${simulator.url}/v1/events?${query.toString()}`, {
      headers: { authorization: 'Bearer sk_test_simulated', 'stripe-account': vendor.connectedAccount },
    })
    const page = (await answer.json()) as { data: ListedEvent[]; has_more: boolean }
    found.push(...page.data)
    if (!page.has_more) return found.toReversed()
  }
}

/** Sends an event of the account as the processor would, signed. */
export async function deliver(
  { billing }: Pick<Harness, 'billing'>,
  { connectedAccount: account }: { connectedAccount: string | undefined },
  event: object,
): Promise<void> {
  const payload = JSON.stringify({ ...event, account })
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: webhookSecret })
  await billing.receiveProcessorEvent({ processor: 'stripe', body: Buffer.from(payload), signature })
}
