import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { array, constant, constantFrom, integer, option, record, tuple } from 'fast-check'
import type { Arbitrary } from 'fast-check'
import { eventsAt } from './processor-events.ts'
import type { Harness } from './harness.ts'
import { outcomeOf } from './outcome.ts'
import { askProcessor, checkoutRefOf, licencesOf, openCheckout, paymentsOf } from './shop.ts'
import { anotherPlan } from './vendor.ts'
import type { Mode, Vendor } from './vendor.ts'

/** The name of an action of the simulator, and its parameters. */
type Action = [name: string, how: Record<string, unknown>]

/** The purchases of a customer, and the actions on them. An action that is not possible at its time is left out. */
export interface CustomerStory {
  bought: { mode: Mode; metadata: Record<string, string>; updatesMonths: number | null }[]
  /** Each of them is an action on the purchase with this number. */
  moves: [of: number, Action][]
  seed: number
}

const actions: Action[] = [
  ['renew', {}],
  ['renew', {}],
  ['fail-invoice', {}],
  ['fail-invoice', { after_final: 'cancel' }],
  ['cancel', { when: 'period_end' }],
  ['cancel', { when: 'undo' }],
  ['cancel', { when: 'now', reason: 'cancellation_requested' }],
  ['cancel', { when: 'now', reason: 'payment_failed' }],
  ['refund', { amount: 100 }],
  ['refund', { amount: 3000 }],
  ['refund', { amount: 4900 }],
  ['dispute', { kind: 'chargeback' }],
  ['dispute', { kind: 'inquiry' }],
]

// Unix seconds, and the seconds between two actions. Everything happens within the hour for which billing lists the newest
// events, so that it finds the events that have not arrived.
const begins = Math.floor(Date.now() / 1000) - 3_000
const pace = 60

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
  moves: array(tuple(integer({ min: 0, max: 1 }), constantFrom(...actions)), { minLength: 1, maxLength: 7 }),
  seed,
})

const actionsOnCharge: Action[] = [
  ...[100, 1900, 3000, 4900].flatMap((amount): Action[] => [
    ['refund', { amount, force: true }],
    ['refund', { amount, force: true, status: 'pending' }],
  ]),
  ...['succeeded', 'succeeded', 'failed', 'canceled'].map((status): Action => ['refund-status', { status }]),
  ...['chargeback', 'inquiry'].map((kind): Action => ['dispute', { kind, force: true }]),
  ['escalate-dispute', {}],
  ...['won', 'lost', 'warning_closed'].map((outcome): Action => ['close-dispute', { outcome }]),
]

/** One payment, and refunds and disputes of its charge. */
export const chargeStories: Arbitrary<CustomerStory> = record({
  bought: constant([{ mode: 'payment', metadata: {}, updatesMonths: null }]),
  moves: array(tuple(constant(0), constantFrom(...actionsOnCharge)), { minLength: 1, maxLength: 6 }),
  seed,
})

type Services = Parameters<typeof anotherPlan>[0] & Pick<Harness, 'simulator' | 'sql'>

/** Makes a story happen at the processor. `between` runs after each step. */
export async function happenTo(
  harness: Services,
  vendor: Vendor,
  { bought, moves }: CustomerStory,
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
  for (const [of, [name, how]] of moves) {
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

async function subscriptionOf(harness: Services, vendor: Vendor, session: string): Promise<string> {
  const path = `checkout/sessions/${session}`
  return (await askProcessor<{ subscription: string }>(harness, path, vendor)).subscription
}

const timeOf = (time: Timestamp | undefined) => time && timestampDate(time).toISOString()

/** Whether an event is sent in whatever order the processor's events arrive. */
function isSentInAnyOrder(event: string, bought: CustomerStory['bought']): boolean {
  // The changes by a purchase depend on the other purchases that are known by then. The licence ends the same.
  if (bought.length > 1) return !event.startsWith('licence.')
  // Failures that are reported after their invoice was paid suspend nothing.
  return (
    bought[0]!.mode !== 'subscription' ||
    (event !== 'licence.suspended payment_failed' && event !== 'licence.reactivated')
  )
}

/** The final state of the vendor and the events that it was sent, without ids. */
export async function endOf(
  harness: Pick<Harness, 'billing' | 'licensing' | 'events' | 'sql'>,
  vendor: Vendor,
  { bought }: CustomerStory,
): Promise<unknown> {
  const licences = await licencesOf(harness, vendor)
  const payments = await paymentsOf(harness, vendor)
  const places = new Map(licences.map(({ id }, at) => [id, at]))
  const outcome = await outcomeOf(harness, vendor)
  return {
    ...outcome,
    sent: outcome.sent.filter((event) => isSentInAnyOrder(event, bought)),
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
