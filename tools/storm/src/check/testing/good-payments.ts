import type { Outcome } from '../../outcome.ts'
import { accountId, appId, type Maker } from './maker.ts'

export function pay(maker: Maker, mode: 'payment' | 'subscription', amount: number): void {
  const { outcome } = maker
  const number = (maker.paid += 1)
  const externalRef = `buyer-${number}`
  const sessionId = `cs_${number}`
  maker.send({ do: 'checkout', appId, externalRef, planId: 'pln_1' }, { id: sessionId })
  const licence = maker.licence({ externalRef })
  maker.change(licence, 'created', 'active', { actor: 'processor', cause: sessionId })
  maker.event('payment.succeeded', { licence_id: licence.id, amount, currency: 'usd' })
  const feeMinor = Math.floor((amount * 100 + 5_000) / 10_000)
  outcome.processor.paid.push({ sessionId, amount })
  outcome.provisions.push({ appId, paymentRef: sessionId, licenceId: licence.id })
  outcome.sessions.push({
    id: sessionId,
    appId,
    planId: 'pln_1',
    externalRef,
    status: 'provisioned',
    licenceId: licence.id,
    amount,
    feeMinor,
  })
  book(maker, {
    sourceKey: `checkout:${sessionId}`,
    sessionId,
    invoiceRef: mode === 'subscription' ? `in_${number}` : null,
    licenceId: licence.id,
    amount,
    feeMinor,
    chargeRef: `ch_${number}`,
  })
}

function book(
  maker: Maker,
  fields: Partial<Outcome['payments'][number]> & { amount: number; feeMinor: number },
): void {
  const { payments, fees } = maker.outcome
  const id = `pay_${payments.length + 1}`
  payments.push({
    id,
    accountId,
    sourceKey: '',
    sessionId: null,
    saleId: null,
    invoiceRef: null,
    licenceId: null,
    chargeRef: null,
    ...fields,
  })
  if (fields.feeMinor === 0) return
  const entry = { accountId, paymentId: id, kind: 'charge', amountMinor: fields.feeMinor, period: '2026-11' }
  fees.push({ id: `fee_${fees.length + 1}`, ...entry })
}

function latest(maker: Maker) {
  const { payments, licences } = maker.outcome
  return { payment: payments.at(-1)!, licence: licences.at(-1)! }
}

function bookRefund(maker: Maker, ref: string, lane: string, amount: number): void {
  const { payment, licence } = latest(maker)
  const { refunds } = maker.outcome
  const status = 'succeeded'
  refunds.push({ id: `rfd_${ref}`, paymentId: payment.id, ref, lane, status, amount, processed: true })
  maker.event('refund.processed', { licence_id: licence.id, charge_ref: payment.chargeRef, amount, lane })
}

export function refund(maker: Maker, lane: 'full_refund' | 'partial_refund', amount: number): void {
  const { payment, licence } = latest(maker)
  const ref = `re_${maker.paid}`
  maker.outcome.processor.refunds.push({ ref, chargeRef: payment.chargeRef!, amount })
  const full = lane === 'full_refund'
  const to = full ? 'revoked' : 'downgraded'
  maker.change(licence, to, to, { actor: 'processor', cause: ref })
  bookRefund(maker, ref, lane, amount)
  if (!full) return
  const credit = { accountId, paymentId: payment.id, kind: 'credit', amountMinor: -payment.feeMinor }
  maker.outcome.fees.push({ id: `fee_c${maker.paid}`, ...credit, period: '2026-11' })
}

export function chargeBack(maker: Maker): void {
  const { payment, licence } = latest(maker)
  const ref = `du_${maker.paid}`
  maker.outcome.processor.chargebacks.push({ ref, chargeRef: payment.chargeRef!, amount: payment.amount })
  maker.change(licence, 'revoked', 'revoked', { actor: 'processor', cause: ref })
  bookRefund(maker, ref, 'chargeback', payment.amount)
}

export function renewAndEnd(maker: Maker): void {
  const { payment, licence } = latest(maker)
  const { processor } = maker.outcome
  processor.renewals.push({ invoiceRef: 'in_renewal', amount: payment.amount })
  maker.change(licence, 'renewed', 'active', { actor: 'processor', cause: 'in_renewal' })
  book(maker, {
    sourceKey: `invoice:${payment.sessionId}:in_renewal`,
    sessionId: payment.sessionId,
    invoiceRef: 'in_renewal',
    licenceId: licence.id,
    amount: payment.amount,
    feeMinor: payment.feeMinor,
    chargeRef: 'ch_renewal',
  })
  processor.ended.push(payment.sessionId!)
  maker.change(licence, 'expired', 'expired', { actor: 'processor', cause: 'sub_1' })
}

export function sell(maker: Maker): void {
  const { outcome } = maker
  const asked = { do: 'sale', appId, externalRef: 'sold', planId: 'pln_1', amount: 100 } as const
  const sale = maker.send({ ...asked, saleId: 'sale-1' })
  const licence = maker.licence({ externalRef: 'sold' })
  sale.body = { id: 'sale_1', licence_id: licence.id }
  maker.change(licence, 'created', 'active', { actor: 'processor', cause: 'sale:sale-1' })
  outcome.provisions.push({ appId, paymentRef: 'sale:sale-1', licenceId: licence.id })
  outcome.sales.push({ id: 'sale_1', appId, saleId: 'sale-1', status: 'provisioned', licenceId: licence.id })
  book(maker, { sourceKey: 'sale:sale_1', saleId: 'sale-1', licenceId: licence.id, amount: 100, feeMinor: 0 })
  maker.send({ ...asked, saleId: 'sale-2', planId: 'pln_2' }, { id: 'sale_2', licence_id: null })
  outcome.sales.push({ id: 'sale_2', appId, saleId: 'sale-2', status: 'provision_failed', licenceId: null })
  book(maker, { sourceKey: 'sale:sale_2', saleId: 'sale-2', amount: 100, feeMinor: 0 })
  maker.event('payment.provision_failed', { session_id: 'sale_2' })
  outcome.counters.push({ name: 'fees of acct_1 in 2026-11', kept: 124, counted: 124 })
}
