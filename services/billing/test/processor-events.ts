import { Stripe } from 'stripe'
import type { Harness } from './harness.ts'
import { askProcessor } from './shop.ts'
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
export async function eventsAt(harness: Pick<Harness, 'simulator'>, vendor: Vendor): Promise<ListedEvent[]> {
  const found: ListedEvent[] = []
  for (let after = ''; ; after = found.at(-1)!.id) {
    const path = `events?limit=100${after && `&starting_after=${after}`}`
    const page = await askProcessor<{ data: ListedEvent[]; has_more: boolean }>(harness, path, vendor)
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
