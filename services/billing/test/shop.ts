import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { CheckoutSession, Fee, Payment, Refund } from '@licensing/proto/billing'
import type { Licence } from '@licensing/proto/licensing'
import type { Metadata } from '@licensing/proto/metadata'
import { eventually } from '@licensing/test-support/poll'
import { createHash } from 'node:crypto'
import { inspect } from 'node:util'
import { expect } from 'vitest'
import type { Harness } from './harness.ts'
import type { Vendor } from './vendor.ts'

const firstPage = { limit: 200, beforeId: '' }

/** A customer's checkout. */
export async function openCheckout(
  { billing }: Pick<Harness, 'billing'>,
  vendor: Vendor,
  order: { planId?: string; externalRef?: string; metadata?: { entries: Metadata } } = {},
): Promise<CheckoutSession> {
  return billing.createCheckoutSession({
    accountId: vendor.accountId,
    applicationId: vendor.applicationId,
    planId: vendor.planId,
    externalRef: 'cust-1001',
    successUrl: 'https://vendor.example/thanks',
    cancelUrl: 'https://vendor.example/cancel',
    ...order,
  })
}

/** Checkouts of as many customers, four at a time, again if the processor does not answer in time on a busy machine. */
export async function openCheckouts(
  harness: Pick<Harness, 'billing'>,
  vendor: Vendor,
  count: number,
): Promise<CheckoutSession[]> {
  const sessions: CheckoutSession[] = []
  while (sessions.length < count) {
    const customers = Array.from(
      { length: Math.min(4, count - sessions.length) },
      (_, at) => sessions.length + at,
    )
    const opened = customers.map((at) =>
      eventually(() => openCheckout(harness, vendor, { externalRef: `cust-${at}` })),
    )
    sessions.push(...(await Promise.all(opened)))
  }
  return sessions
}

/** The processor's id of a checkout; it is in the address that the customer is sent to. */
export function checkoutRefOf(session: CheckoutSession): string {
  return session.url.split('/').at(-1)!
}

export async function pay(
  { simulator }: Pick<Harness, 'simulator'>,
  session: CheckoutSession,
  how: { method?: 'delayed'; discount?: number; created?: number } = {},
): Promise<void> {
  await simulator.control('pay', { session: checkoutRefOf(session), ...how })
}

/** The processor sends none of the vendor's events, or none of these types, so that the test can deliver them itself. */
export async function dropEvents(
  { simulator }: Pick<Harness, 'simulator'>,
  { connectedAccount: account }: Vendor,
  ...types: string[]
): Promise<void> {
  await simulator.control('delivery-rules', { action: 'drop', account, types })
}

/** The processor's answer to a GET request for the vendor, or for the platform. */
export async function askProcessor<Answer>(
  { simulator }: Pick<Harness, 'simulator'>,
  path: string,
  vendor?: Vendor,
): Promise<Answer> {
  const headers = {
    authorization: 'Bearer sk_test_simulated',
    ...(vendor && { 'stripe-account': vendor.connectedAccount }),
  }
  return (await fetch(`${simulator.url}/v1/${path}`, { headers })).json() as Promise<Answer>
}

/** The application fees of a charge at the processor. */
export async function applicationFeesOf(harness: Pick<Harness, 'simulator'>, charge: string) {
  type Fees = { data: { amount: number; amount_refunded: number }[] }
  return (await askProcessor<Fees>(harness, `application_fees?charge=${charge}`)).data
}

/** A checkout that was paid and provisioned. */
export interface Sold {
  session: CheckoutSession
  licenceId: string
  charge: string
}

export async function givenSold(
  harness: Harness,
  vendor: Vendor,
  options: { externalRef?: string; created?: number } = {},
): Promise<Sold> {
  const { created, ...order } = options
  const session = await openCheckout(harness, vendor, order)
  await pay(harness, session, created === undefined ? {} : { created })
  await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
  const payment = (await paymentsOf(harness, vendor)).find((each) => each.sessionId === session.id)!
  return { session, licenceId: payment.licenceId!, charge: payment.chargeRef! }
}

export type Sale = Partial<Parameters<Harness['billing']['recordSaleEvent']>[0]>

export const saleOccurredAt = timestampFromDate(new Date(Date.UTC(2026, 0, 31, 9)))

/** Stands for the hash of the request's body. */
export const bodyHashOf = (sale: Sale) => createHash('sha256').update(inspect(sale)).digest()

/** Records a sale of another shop, by default of the vendor's plan. */
export function recordSale({ billing }: Pick<Harness, 'billing'>, vendor: Vendor, sale: Sale = {}) {
  return billing.recordSaleEvent({
    ...scope(vendor),
    saleId: 'order-1',
    externalRef: 'cust-1',
    amount: 4900n,
    currency: 'usd',
    occurredAt: saleOccurredAt,
    bodyHash: bodyHashOf(sale),
    ...('priceId' in sale ? {} : { planId: vendor.planId }),
    ...sale,
  })
}

export async function statusOf(
  { billing }: Pick<Harness, 'billing'>,
  { accountId, applicationId }: Vendor,
  sessionId: string,
): Promise<string> {
  return (await billing.getCheckoutSession({ accountId, applicationId, sessionId })).status
}

export async function paymentsOf(harness: Pick<Harness, 'billing'>, vendor: Vendor): Promise<Payment[]> {
  return (await harness.billing.listPayments({ ...scope(vendor), ...firstPage })).payments
}

export async function refundsOf(harness: Pick<Harness, 'billing'>, vendor: Vendor): Promise<Refund[]> {
  return (await harness.billing.listRefunds({ ...scope(vendor), ...firstPage })).refunds
}

export async function feesOf(harness: Pick<Harness, 'billing'>, vendor: Vendor): Promise<Fee[]> {
  return (await harness.billing.listFees({ accountId: vendor.accountId, ...firstPage })).fees
}

/** The ledger in short, oldest first. */
export async function ledgerOf(harness: Pick<Harness, 'billing'>, vendor: Vendor): Promise<string[]> {
  const fees = await feesOf(harness, vendor)
  return fees.toReversed().map((fee) => `${fee.kind} ${fee.amountMinor}`)
}

export async function licenceOf(
  { licensing }: Pick<Harness, 'licensing'>,
  { accountId }: Vendor,
  licenceId: string,
): Promise<Licence> {
  return (await licensing.getLicence({ accountId, licenceId })).licence!
}

export async function licencesOf(
  { licensing }: Pick<Harness, 'licensing'>,
  vendor: Vendor,
): Promise<Licence[]> {
  return (await licensing.listLicences({ ...scope(vendor), ...firstPage, neverSeen: false })).licences
}

/** Types of the events that the vendor was sent, sorted. */
export function sentTypes({ events }: Pick<Harness, 'events'>, { accountId }: Vendor): string[] {
  return events
    .of(accountId)
    .map((event) => event.type)
    .sort()
}

/**
 * Resolves when billing has processed all events that the processor has sent for the vendor, licensing has applied their
 * effects, and the event log has everything that the vendor is sent.
 */
export async function handled(
  { sql, licensingSql, events, simulator }: Pick<Harness, 'sql' | 'licensingSql' | 'events' | 'simulator'>,
  { accountId, connectedAccount }: Vendor,
): Promise<void> {
  const none = (count: () => Promise<{ waiting: number }[]>) =>
    eventually(async () => expect((await count())[0]!.waiting).toBe(0))
  await simulator.settled()
  await none(
    () => sql`
      select count(*)::int as waiting from processor_events
      where handled_at is null and not dead_lettered and merchant = ${`stripe:${connectedAccount}`}`,
  )
  await none(
    () => sql`
      select (
        select count(*) from purchases
        where account_id = ${accountId} and (decide_at is not null or send_at is not null)
      )::int + (
        select count(*) from processor_questions
        where account_id = ${accountId} and (
          next_at is not null and attempts < 3
          -- The third answer is still on its way. After it, the next question comes within two seconds.
          or attempts = 3 and next_at > clock_timestamp() + interval '10 seconds'
        )
      )::int as waiting`,
  )
  for (const each of [sql, licensingSql]) {
    await none(() => each`select count(*)::int as waiting from outbox where account_id = ${accountId}`)
  }
  await events.caughtUp()
}

export function scope({ accountId, applicationId }: Vendor) {
  return { accountId, applicationId }
}
