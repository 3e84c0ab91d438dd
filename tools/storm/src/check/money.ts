import type { Outcome, Payment } from '../outcome.ts'
import { asAnswered, groupBy, same, sentTo, sum, type Rule } from './rule.ts'

const feeBps = 100

const saleOf = ({ appId, saleId }: { appId: string; saleId: string }) => `${appId} ${saleId}`
const provisionedSales = (sales: Outcome['sales']) =>
  new Set(sales.filter(({ status }) => status === 'provisioned').map(saleOf))

/** Sales and checkouts exist as they were answered. */
export const salesOnce: Rule = function* (outcome) {
  const sales = sentTo(outcome, 'sale').map(({ asked, answered, body }) => {
    return { answered, key: `${asked.appId} ${asked.saleId}`, id: body['licence_id'] as string | null }
  })
  const soldRows = outcome.sales.map(({ appId, saleId, licenceId }) => ({
    key: `${appId} ${saleId}`,
    id: licenceId,
  }))
  yield* asAnswered('sale', sales, soldRows)
  const checkouts = sentTo(outcome, 'checkout').map(({ asked, answered, body }) => {
    return { answered, key: `${asked.appId} ${asked.externalRef}`, id: body['id'] as string }
  })
  const sessions = outcome.sessions.map(({ id, appId, externalRef }) => ({
    key: `${appId} ${externalRef}`,
    id,
  }))
  yield* asAnswered('checkout', checkouts, sessions)
}

/** Each payment at the processor is recorded once with its exact amount, and no other payment is recorded. */
export const paymentsMatch: Rule = function* ({ payments, processor, sessions, sales, saleFacts }) {
  const sourceOf = ({ sourceKey, invoiceRef, sessionId }: Payment) =>
    sourceKey.startsWith('invoice:') && invoiceRef ? `invoice ${invoiceRef}` : `checkout ${sessionId}`
  const paid = [
    ...processor.paid.map(({ sessionId, amount }) => `checkout ${sessionId} of ${amount}`),
    ...processor.renewals.map(({ invoiceRef, amount }) => `invoice ${invoiceRef} of ${amount}`),
  ]
  const booked = payments.filter(({ saleId }) => saleId === null)
  yield* same(
    'payment by',
    paid,
    booked.map((each) => `${sourceOf(each)} of ${each.amount}`),
  )
  const provisioned = provisionedSales(sales)
  const renewals = saleFacts.filter((fact) => fact.kind === 'renewal' && provisioned.has(saleOf(fact)))
  yield* same(
    'payment of sale',
    [
      ...sales.map(({ saleId }) => saleId),
      ...renewals.map((fact) => `${fact.saleId} by ${fact.id} of ${fact.amount}`),
    ],
    payments.flatMap(({ saleId, chargeRef, amount }) =>
      saleId === null ? [] : chargeRef === null ? saleId : `${saleId} by ${chargeRef} of ${amount}`,
    ),
  )
  const statusOf = new Map(sessions.map(({ id, status }) => [id, status]))
  for (const { sessionId } of processor.paid)
    if (!statusOf.get(sessionId)?.startsWith('provision'))
      yield `session ${sessionId} was paid and is neither provisioned nor failed`
}

/** Billing and licensing name the same licence for each payment, and its history has the payment once. */
export const provisionsMatch: Rule = function* ({ sessions, sales, provisions, history }) {
  const billed = [
    ...sessions.map((each) => ({ ...each, ref: each.id })),
    ...sales.map((each) => ({ ...each, ref: `sale:${each.saleId}` })),
  ]
  yield* same(
    'provision',
    billed
      .filter(({ status }) => status === 'provisioned')
      .map(({ appId, ref, licenceId }) => `${appId} ${ref} ${licenceId}`),
    provisions.map(({ appId, paymentRef, licenceId }) => `${appId} ${paymentRef} ${licenceId}`),
  )
  const bought = history.filter(({ type }) => type === 'created' || type === 'plan_changed')
  const causes = groupBy(bought, ({ licenceId, cause }) => `${licenceId} ${cause}`)
  for (const { licenceId, paymentRef } of provisions)
    if (causes.get(`${licenceId} ${paymentRef}`)?.length !== 1)
      yield `the history of ${licenceId} does not have payment ${paymentRef} once`
}

/** The ledger has each fee once, and returns it once if the whole amount was refunded. */
export const ledger: Rule = function* ({ payments, fees, refunds, processor }) {
  const byPayment = groupBy(fees, ({ paymentId }) => paymentId)
  const returned = groupBy(processor.refunds, ({ chargeRef }) => chargeRef)
  const known = new Set(payments.map(({ id }) => id))
  for (const { id, saleId, chargeRef, amount, feeMinor } of payments) {
    const due = saleId === null ? Math.floor((amount * feeBps + 5_000) / 10_000) : 0
    const refunded = sum((returned.get(chargeRef ?? '') ?? []).map((refund) => refund.amount))
    const entered = (kind: string) =>
      sum((byPayment.get(id) ?? []).filter((fee) => fee.kind === kind).map((fee) => fee.amountMinor))
    const figures = [
      { name: 'fee', is: feeMinor, should: due },
      { name: 'charge', is: entered('charge'), should: due },
      { name: 'credit', is: -entered('credit'), should: chargeRef !== null && refunded >= amount ? due : 0 },
      { name: 'reversal', is: entered('reversal'), should: 0 },
    ]
    for (const { name, is, should } of figures)
      if (is - should !== 0) yield `the ${name} of payment ${id} is ${is}, not ${should}`
  }
  for (const { id, paymentId } of [...fees, ...refunds])
    if (!known.has(paymentId)) yield `${id} belongs to no payment`
}

/** Refunds and chargebacks are recorded once, with the amounts of the processor or of the shop. */
export const refundsMatch: Rule = function* ({ refunds, payments, processor, sales, saleFacts }) {
  const chargeOf = new Map(payments.map(({ id, chargeRef, saleId }) => [id, chargeRef ?? saleId]))
  const provisioned = provisionedSales(sales)
  const renewals = new Set(saleFacts.filter(({ kind }) => kind === 'renewal').map(({ id }) => id))
  const ofShops = saleFacts.filter(
    (fact) =>
      (fact.kind === 'refund' || fact.kind === 'chargeback') &&
      provisioned.has(saleOf(fact)) &&
      (fact.renewalId === null || renewals.has(fact.renewalId)),
  )
  const made = [
    ...processor.refunds,
    ...processor.chargebacks,
    ...ofShops.map(({ id, renewalId, saleId, amount }) => ({
      ref: id,
      chargeRef: renewalId ?? saleId,
      amount: amount!,
    })),
  ]
  yield* same(
    'refund',
    made.map(({ ref, chargeRef, amount }) => `${ref} of ${amount} from ${chargeRef}`),
    refunds.map(({ ref, paymentId, amount }) => `${ref} of ${amount} from ${chargeOf.get(paymentId)}`),
  )
  for (const { ref, processed } of refunds) if (!processed) yield `refund ${ref} has had no consequence`
}

/** If a licence's payment was refunded or charged back or its subscription ended, products can no longer use the licence. */
export const consequences: Rule = function* ({ payments, sessions, licences, processor }) {
  const statusOf = new Map<string | null, string>(licences.map(({ id, status }) => [id, status]))
  const byCharge = groupBy(processor.refunds, ({ chargeRef }) => chargeRef)
  const charged = new Set(processor.chargebacks.map(({ chargeRef }) => chargeRef))
  const isOver = (status = '') => status === 'revoked' || status === 'retired'
  for (const { sessionId, invoiceRef, licenceId, chargeRef, amount } of payments) {
    if (sessionId === null || invoiceRef !== null || licenceId === null || chargeRef === null) continue
    const status = statusOf.get(licenceId)
    const refunded = sum((byCharge.get(chargeRef) ?? []).map((refund) => refund.amount))
    const part = refunded >= amount || charged.has(chargeRef) ? 'all' : refunded > 0 ? 'a part' : 'nothing'
    if (part === 'a part' ? status !== 'downgraded' : isOver(status) !== (part === 'all'))
      yield `${licenceId} is ${status} though ${part} of charge ${chargeRef} was refunded`
  }
  for (const { id, licenceId } of sessions)
    if (processor.ended.includes(id) && licenceId !== null && statusOf.get(licenceId) !== 'expired')
      yield `${licenceId} is ${statusOf.get(licenceId)} though its subscription ended`
}

/** Facts of other shops exist as they were answered. */
export const saleFactsOnce: Rule = function* (outcome) {
  const keyOf = ({ appId, saleId, kind, id }: Outcome['saleFacts'][number]) =>
    `${appId} ${saleId} ${kind} ${id}`
  const asked = sentTo(outcome, 'sale fact').map(({ asked, answered }) => {
    return { answered, key: keyOf({ ...asked, at: 0, amount: null, renewalId: null }) }
  })
  yield* asAnswered(
    'fact',
    asked,
    outcome.saleFacts.map((fact) => ({ key: keyOf(fact) })),
  )
}

/** If a customer's only sale was charged back in its current cycle or cancelled, products can no longer use its licence. */
export const saleConsequences: Rule = function* ({ sales, saleFacts, licences }) {
  const licenceOf = new Map<string | null, Outcome['licences'][number]>(
    licences.map((each) => [each.id, each]),
  )
  const facts = groupBy(saleFacts, saleOf)
  for (const sale of sales) {
    const licence = licenceOf.get(sale.licenceId)
    // A regular customer may have other purchases.
    if (!licence?.externalRef.startsWith('sold-')) continue
    const own = facts.get(saleOf(sale)) ?? []
    const renewedBefore = (at: number) =>
      own
        .filter((fact) => fact.kind === 'renewal' && fact.at <= at)
        .toSorted((a, b) => a.at - b.at)
        .at(-1)?.id ?? null
    const isReturned = own.some(
      (fact) => fact.kind === 'chargeback' && fact.renewalId === renewedBefore(fact.at),
    )
    const isEnded = own.some(({ kind }) => kind === 'cancellation')
    const allowed = isReturned
      ? ['revoked', 'retired']
      : isEnded
        ? ['expired', 'retired', 'revoked']
        : undefined
    if (allowed && !allowed.includes(licence.status))
      yield `${licence.id} is ${licence.status} though sale ${sale.saleId} was ${isReturned ? 'charged back' : 'cancelled'}`
  }
}
