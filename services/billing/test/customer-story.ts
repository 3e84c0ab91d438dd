import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { array, constant, constantFrom, integer, oneof, option, record } from 'fast-check'
import type { Arbitrary } from 'fast-check'
import { eventsAt } from './processor-events.ts'
import type { Harness } from './harness.ts'
import { outcomeOf } from './outcome.ts'
import { checkoutRefOf, licencesOf, openCheckout, paymentsOf } from './shop.ts'
import { anotherPlan } from './vendor.ts'
import type { Mode, Vendor } from './vendor.ts'

/** The purchases of a customer, and the actions on them. An action that is not possible at its time is left out. */
export interface CustomerStory {
  bought: { mode: Mode; metadata: Record<string, string>; updatesMonths: number | null }[]
  moves: { of: number; action: string; how: Record<string, unknown> }[]
  /** Seconds between two actions. */
  pace: number
  seed: number
}

const action = oneof(
  ...[
    constant(['renew', {}]),
    constant(['fail-invoice', {}]),
    constant(['fail-invoice', { after_final: 'cancel' }]),
    constant(['cancel', { when: 'period_end' }]),
    constant(['cancel', { when: 'undo' }]),
    constantFrom('cancellation_requested', 'payment_failed').map((reason) => [
      'cancel',
      { when: 'now', reason },
    ]),
    constantFrom(100, 1900, 3000, 4900).map((amount) => ['refund', { amount }]),
    constantFrom('chargeback', 'inquiry').map((kind) => ['dispute', { kind }]),
  ].map((each) => each as Arbitrary<[string, Record<string, unknown>]>),
)

const seed = integer({ min: 1, max: 2 ** 30 })

export const customerStories: Arbitrary<CustomerStory> = record({
  bought: array(
    record({
      mode: constantFrom<Mode>('payment', 'subscription', 'subscription'),
      metadata: constantFrom<Record<string, string>>({}, { a: '1' }, { a: '2', b: '2' }, { b: '3', c: '3' }),
      updatesMonths: option(integer({ min: 1, max: 36 })),
    }),
    { minLength: 1, maxLength: 2 },
  ),
  moves: array(
    record({ of: integer({ min: 0, max: 1 }), action }).map(({ of, action: [name, how] }) => ({
      of,
      action: name,
      how,
    })),
    { minLength: 1, maxLength: 7 },
  ),
  pace: constant(60),
  seed,
})

const actionOnCharge = oneof(
  record({
    amount: constantFrom(1900, 3000, 4900, 100),
    status: constantFrom('succeeded', 'succeeded', 'pending'),
  }).map((how) => ['refund', { ...how, force: true }]),
  constantFrom('succeeded', 'failed', 'canceled').map((status) => ['refund-status', { status }]),
  constantFrom('chargeback', 'inquiry').map((kind) => ['dispute', { kind, force: true }]),
  constant(['escalate-dispute', {}]),
  constantFrom('won', 'lost', 'warning_closed').map((outcome) => ['close-dispute', { outcome }]),
).map((each) => each as [string, Record<string, unknown>])

/** One payment, and refunds and disputes of its charge. */
export const chargeStories: Arbitrary<CustomerStory> = record({
  bought: constant([{ mode: 'payment', metadata: {}, updatesMonths: null }]),
  moves: array(
    actionOnCharge.map(([name, how]) => ({ of: 0, action: name, how })),
    { minLength: 1, maxLength: 5 },
  ),
  // Within moments, or within days, so that some refunds come too late for a credit.
  pace: oneof(
    constant(60),
    integer({ min: 3, max: 5 }).map((days) => days * 86_400),
  ),
  seed,
})

type Services = Parameters<typeof anotherPlan>[0] & Pick<Harness, 'simulator' | 'sql'>

/** Makes a story happen at the processor, from `begins` on, Unix seconds. `between` runs after each step. */
export async function happenTo(
  harness: Services,
  vendor: Vendor,
  { bought, moves, pace }: CustomerStory,
  begins: number,
  between: () => Promise<void>,
): Promise<void> {
  const sessions: string[] = []
  for (const [at, { mode, metadata, updatesMonths }] of bought.entries()) {
    const price = { amount: 4900n, currency: 'usd', mode, ...(updatesMonths !== null && { updatesMonths }) }
    const plan = await anotherPlan(harness, vendor, price)
    const session = checkoutRefOf(await openCheckout(harness, plan, { metadata: { entries: metadata } }))
    sessions.push(session)
    await harness.simulator.control('pay', { session, created: begins + at * 600 })
    await between()
  }
  let refund = ''
  let dispute = ''
  for (const { of, action: name, how } of moves) {
    const at = of % bought.length
    const session = sessions[at]!
    const ofCharge: Record<string, object> = {
      refund: { charge: session },
      dispute: { charge: session },
      'refund-status': { refund },
      'escalate-dispute': { dispute },
      'close-dispute': { dispute },
    }
    if (!(name in ofCharge) && bought[at]!.mode !== 'subscription') continue
    const target = ofCharge[name] ?? { subscription: await subscriptionOf(harness, vendor, session) }
    // Renewals move the customer's clock by themselves. Two events of the same second have no order.
    const isRenewal = name === 'renew' || name === 'fail-invoice'
    const time = isRenewal ? {} : { created: (await latestTime(harness, vendor)) + pace }
    const done = await harness.simulator
      .control<{ id: string }>(name, { ...target, ...how, ...time })
      .catch(() => undefined)
    if (!done) continue
    if (name === 'refund') refund = done.id
    if (name === 'dispute') dispute = done.id
    await between()
  }
}

/** When the latest event happened, Unix seconds. */
async function latestTime(harness: Services, vendor: Vendor): Promise<number> {
  const events = await eventsAt(harness, vendor)
  return Math.max(...events.map(({ created }) => created))
}

async function subscriptionOf({ simulator }: Services, vendor: Vendor, session: string): Promise<string> {
  const answer = await fetch(`${simulator.url}/v1/checkout/sessions/${session}`, {
    headers: { authorization: 'Bearer sk_test_simulated', 'stripe-account': vendor.connectedAccount },
  })
  return ((await answer.json()) as { subscription: string }).subscription
}

const timeOf = (time: Timestamp | undefined) => time && timestampDate(time).toISOString()

/** The final state of the vendor and the events that it was sent, without ids. */
export async function endOf(
  harness: Pick<Harness, 'billing' | 'licensing' | 'events'>,
  vendor: Vendor,
): Promise<unknown> {
  const licences = await licencesOf(harness, vendor)
  const payments = await paymentsOf(harness, vendor)
  const places = new Map(licences.map(({ id }, at) => [id, at]))
  const outcome = await outcomeOf(harness, vendor)
  return {
    ...outcome,
    // Failures that are reported after their invoice was paid suspend nothing.
    sent: outcome.sent.filter(
      (event) => event !== 'licence.suspended payment_failed' && event !== 'licence.reactivated',
    ),
    fields: licences.map(({ expiresOn, updatesUntil, metadata }) => ({
      expiresOn: timeOf(expiresOn),
      updatesUntil: timeOf(updatesUntil),
      metadata,
    })),
    payments: payments
      .map(({ amount, feeMinor, occurredAt, licenceId }) =>
        [amount, feeMinor, timeOf(occurredAt), places.get(licenceId ?? '')].join(' '),
      )
      .toSorted(),
  }
}
