import type { Payment } from '../outcome.ts'
import { groupBy, sentTo, timesProblem, duplicates, type Rule } from './rule.ts'

const feeBps = 100

/** Sales and checkouts exist as they were answered. */
export const salesOnce: Rule = (outcome) => {
  const sales = [
    ...groupBy(sentTo(outcome, 'sale'), ({ asked }) => `${asked.appId} ${asked.saleId}`),
  ].flatMap(([key, tries]) => {
    const found = outcome.sales.filter(({ appId, saleId }) => `${appId} ${saleId}` === key)
    const named = tries
      .filter(({ answered }) => answered === 'acknowledged')
      .map(({ body }) => body['licence_id'])
      .filter((id) => typeof id === 'string')
    return [
      ...timesProblem(
        `sale ${key}`,
        tries.map(({ answered }) => answered),
        found.length,
      ),
      ...named
        .filter((id) => id !== found[0]?.licenceId)
        .map((id) => `sale ${key} was answered with ${id} and has ${found[0]?.licenceId}`),
    ]
  })
  const checkouts = sentTo(outcome, 'checkout').flatMap(({ asked, answered, body }) => {
    const found = outcome.sessions.filter(
      ({ appId, externalRef }) => appId === asked.appId && externalRef === asked.externalRef,
    )
    const other = answered === 'acknowledged' && found[0] && found[0].id !== body['id']
    return [
      ...timesProblem(`checkout of ${asked.externalRef}`, [answered], found.length),
      ...(other ? [`checkout of ${asked.externalRef} is not the one that was answered`] : []),
    ]
  })
  return [...sales, ...checkouts]
}

/** Each payment at the processor is recorded once with its exact amount, and no other payment is recorded. */
export const paymentsMatch: Rule = ({ payments, processor, sessions, sales }) => {
  const expected = new Map<string, number>([
    ...processor.paid.map(({ sessionId, amount }) => [`checkout:${sessionId}`, amount] as const),
    ...processor.renewals.map(({ invoiceRef, amount }) => [`invoice:${invoiceRef}`, amount] as const),
  ])
  const keyOf = ({ sessionId, saleId, invoiceRef, sourceKey }: Payment) => {
    if (saleId !== null) return undefined
    return sourceKey.startsWith('invoice:') && invoiceRef ? `invoice:${invoiceRef}` : `checkout:${sessionId}`
  }
  const booked = groupBy(
    payments.filter((payment) => keyOf(payment) !== undefined),
    (payment) => keyOf(payment)!,
  )
  const saleTimes = groupBy(
    payments.filter(({ saleId }) => saleId !== null),
    ({ saleId }) => saleId!,
  )
  return [
    ...[...expected].flatMap(([key, amount]) => {
      const found = booked.get(key) ?? []
      if (found.length !== 1) return [`${key} was paid and is booked ${found.length} times`]
      return found[0]!.amount === amount
        ? []
        : [`${key} was paid ${amount} and is booked as ${found[0]!.amount}`]
    }),
    ...[...booked.keys()]
      .filter((key) => !expected.has(key))
      .map((key) => `${key} is booked and was never paid`),
    ...processor.paid
      .filter(({ sessionId }) => {
        const status = sessions.find(({ id }) => id === sessionId)?.status
        return status !== 'provisioned' && status !== 'provision_failed'
      })
      .map(({ sessionId }) => `session ${sessionId} was paid and is neither provisioned nor failed`),
    ...sales
      .filter(({ saleId }) => saleTimes.get(saleId)?.length !== 1)
      .map(({ saleId }) => `sale ${saleId} is booked ${saleTimes.get(saleId)?.length ?? 0} times`),
  ]
}

/** Billing and licensing name the same licence for each payment, and its history has the payment once. */
export const provisionsMatch: Rule = ({ sessions, sales, provisions, history }) => {
  const billed = new Map([
    ...sessions.map(({ id, appId, status, licenceId }) => [`${appId} ${id}`, { status, licenceId }] as const),
    ...sales.map(
      ({ saleId, appId, status, licenceId }) => [`${appId} sale:${saleId}`, { status, licenceId }] as const,
    ),
  ])
  const causes = groupBy(
    history.filter(({ type }) => type === 'created' || type === 'plan_changed'),
    ({ licenceId, cause }) => `${licenceId} ${cause}`,
  )
  const known = new Set(provisions.map(({ appId, paymentRef }) => `${appId} ${paymentRef}`))
  return [
    ...provisions.flatMap(({ appId, paymentRef, licenceId }) => {
      const bill = billed.get(`${appId} ${paymentRef}`)
      const times = causes.get(`${licenceId} ${paymentRef}`)?.length ?? 0
      return [
        ...(bill?.status === 'provisioned' && bill.licenceId === licenceId
          ? []
          : [
              `licensing provisioned ${licenceId} for ${paymentRef}, billing has ${bill?.status} ${bill?.licenceId}`,
            ]),
        ...(times === 1 ? [] : [`the history of ${licenceId} has payment ${paymentRef} ${times} times`]),
      ]
    }),
    ...[...billed]
      .filter(([key, { status }]) => status === 'provisioned' && !known.has(key))
      .map(([key]) => `billing says ${key} is provisioned, licensing does not know it`),
  ]
}

/** The ledger has each fee once, and returns it once if the whole amount was refunded. */
export const ledger: Rule = ({ payments, fees, refunds, processor }) => {
  const byPayment = groupBy(fees, ({ paymentId }) => paymentId)
  const known = new Set(payments.map(({ id }) => id))
  return [
    ...payments.flatMap((payment) => {
      const due = payment.saleId === null ? Math.floor((payment.amount * feeBps + 5_000) / 10_000) : 0
      const own = byPayment.get(payment.id) ?? []
      const sum = (kind: string) =>
        own.filter((fee) => fee.kind === kind).reduce((total, { amountMinor }) => total + amountMinor, 0)
      const returned = processor.refunds
        .filter(({ chargeRef }) => chargeRef === payment.chargeRef)
        .reduce((total, { amount }) => total + amount, 0)
      const credit = payment.chargeRef !== null && returned >= payment.amount ? due : 0
      return [
        ...(payment.feeMinor === due
          ? []
          : [`the fee of payment ${payment.id} is ${payment.feeMinor}, not ${due}`]),
        ...(sum('charge') === due ? [] : [`payment ${payment.id} was charged ${sum('charge')}, not ${due}`]),
        ...(sum('credit') === -credit
          ? []
          : [`payment ${payment.id} was credited ${-sum('credit')}, not ${credit}`]),
        ...(sum('reversal') === 0 ? [] : [`a credit of payment ${payment.id} was reversed`]),
      ]
    }),
    ...fees
      .filter(({ paymentId }) => !known.has(paymentId))
      .map(({ id }) => `fee ${id} belongs to no payment`),
    ...refunds
      .filter(({ paymentId }) => !known.has(paymentId))
      .map(({ id }) => `refund ${id} belongs to no payment`),
  ]
}

/** Refunds and chargebacks are recorded once, with the processor's amounts. */
export const refundsMatch: Rule = ({ refunds, payments, processor }) => {
  const chargeOf = new Map(payments.map(({ id, chargeRef }) => [id, chargeRef]))
  const all = [...processor.refunds, ...processor.chargebacks]
  const expected = new Map(all.map((each) => [each.ref, each]))
  return [
    ...all.flatMap(({ ref, chargeRef, amount }) => {
      const found = refunds.filter((refund) => refund.ref === ref)
      if (found.length !== 1) return [`refund ${ref} is booked ${found.length} times`]
      const [refund] = found
      if (refund!.amount !== amount) return [`refund ${ref} of ${amount} is booked as ${refund!.amount}`]
      if (chargeOf.get(refund!.paymentId) !== chargeRef) return [`refund ${ref} is booked to another charge`]
      return refund!.processed ? [] : [`refund ${ref} is booked and has had no consequence`]
    }),
    ...refunds
      .filter(({ ref }) => !expected.has(ref))
      .map(({ ref }) => `refund ${ref} is booked and was never made`),
    ...duplicates(refunds.map(({ paymentId, ref }) => `${paymentId} ${ref}`)).map(
      (key) => `refund ${key} is booked twice`,
    ),
  ]
}

/** If a licence's payment was refunded or charged back or its subscription ended, products can no longer use the licence. */
export const consequences: Rule = (outcome) => {
  const { payments, sessions, licences, processor } = outcome
  const licenceOf = new Map(licences.map((licence) => [licence.id, licence]))
  const statusOf = (licenceId: string | null) => licenceOf.get(licenceId ?? '')?.status
  const byCharge = groupBy(processor.refunds, ({ chargeRef }) => chargeRef)
  const charged = new Set(processor.chargebacks.map(({ chargeRef }) => chargeRef))
  const ofOneOffs = payments.filter(({ sessionId, invoiceRef }) => sessionId !== null && invoiceRef === null)
  const returned = ofOneOffs.flatMap(({ licenceId, chargeRef, amount }) => {
    const status = statusOf(licenceId)
    if (chargeRef === null || licenceId === null) return []
    const refunded = (byCharge.get(chargeRef) ?? []).reduce((total, refund) => total + refund.amount, 0)
    const over = status === 'revoked' || status === 'retired'
    if ((refunded >= amount || charged.has(chargeRef)) && !over) {
      return [`${licenceId} is ${status} though charge ${chargeRef} was refunded`]
    }
    if (refunded > 0 && refunded < amount && !charged.has(chargeRef) && status !== 'downgraded') {
      return [`${licenceId} is ${status} though part of charge ${chargeRef} was refunded`]
    }
    return refunded === 0 && !charged.has(chargeRef) && over
      ? [`${licenceId} is ${status} though nothing of charge ${chargeRef} was refunded`]
      : []
  })
  const ended = processor.ended.flatMap((sessionId) => {
    const licenceId = sessions.find(({ id }) => id === sessionId)?.licenceId ?? null
    const status = statusOf(licenceId)
    return licenceId === null || status === 'expired'
      ? []
      : [`${licenceId} is ${status} though its subscription ended`]
  })
  return [...returned, ...ended]
}
