import type { CheckoutSession } from '@licensing/proto/billing'
import { Stripe } from 'stripe'
import { constant, constantFrom, array, integer, oneof, record } from 'fast-check'
import type { Arbitrary } from 'fast-check'
import { webhookSecret } from './surroundings.ts'
import type { Harness } from './harness.ts'
import type { Vendor } from './vendor.ts'
import { checkoutRefOf } from './shop.ts'

/** A step in the history of a charge. A step that is not possible at its time is left out. */
export type Move =
  | { do: 'refund'; amount: number; status: 'succeeded' | 'pending' }
  | { do: 'settle_refund'; status: 'succeeded' | 'failed' | 'canceled' }
  | { do: 'dispute'; kind: 'chargeback' | 'inquiry' }
  | { do: 'escalate' }
  | { do: 'close'; outcome: 'won' | 'lost' | 'warning_closed' }

export const moves: Arbitrary<Move[]> = array(
  oneof(
    record({
      do: constant('refund' as const),
      amount: constantFrom(1900, 3000, 4900, 100),
      status: constantFrom('succeeded' as const, 'succeeded' as const, 'pending' as const),
    }),
    record({
      do: constant('settle_refund' as const),
      status: constantFrom('succeeded' as const, 'failed' as const, 'canceled' as const),
    }),
    record({
      do: constant('dispute' as const),
      kind: constantFrom('chargeback' as const, 'inquiry' as const),
    }),
    record({ do: constant('escalate' as const) }),
    record({
      do: constant('close' as const),
      outcome: constantFrom('won' as const, 'lost' as const, 'warning_closed' as const),
    }),
  ),
  { minLength: 1, maxLength: 5 },
)

/** Seconds between two moves: within moments, or within days, so that some refunds come too late for a credit. */
export const pace: Arbitrary<number> = oneof(
  constant(60),
  integer({ min: 3, max: 5 }).map((days) => days * 86_400),
)

/** Makes a story happen at the processor. `between` runs after each move. */
export async function happen(
  { simulator }: Pick<Harness, 'simulator'>,
  session: CheckoutSession,
  story: { moves: Move[]; pace: number },
  between: () => Promise<void>,
): Promise<void> {
  let created = Math.floor(Date.now() / 1000) - 60 * 86_400
  const attempt = async (name: string, body: object): Promise<string> => {
    created += story.pace
    const done = await simulator.control<{ id: string }>(name, { ...body, created }).catch(() => undefined)
    if (done) await between()
    return done?.id ?? ''
  }
  const charge = checkoutRefOf(session)
  await attempt('pay', { session: charge })
  let refund = ''
  let dispute = ''
  for (const move of story.moves) {
    switch (move.do) {
      case 'refund':
        refund = (await attempt('refund', { charge, ...move, do: undefined, force: true })) || refund
        break
      case 'settle_refund':
        await attempt('refund-status', { refund, status: move.status })
        break
      case 'dispute':
        dispute = (await attempt('dispute', { charge, kind: move.kind, force: true })) || dispute
        break
      case 'escalate':
        await attempt('escalate-dispute', { dispute })
        break
      case 'close':
        await attempt('close-dispute', { dispute, outcome: move.outcome })
        break
    }
  }
}

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

/** Sends an event as the processor would, signed. */
export async function deliver(
  { billing }: Pick<Harness, 'billing'>,
  vendor: Vendor,
  event: object,
): Promise<void> {
  const payload = JSON.stringify({ ...event, account: vendor.connectedAccount })
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: webhookSecret })
  await billing.receiveProcessorEvent({ processor: 'stripe', body: Buffer.from(payload), signature })
}
