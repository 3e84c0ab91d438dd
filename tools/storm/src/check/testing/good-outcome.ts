import type { Answered, Outcome } from '../../outcome.ts'
import { hashOf } from '../trials.ts'
import { accountId, appId, Maker, secret, url } from './maker.ts'

/** A correct outcome with some data of every kind. */
export function goodOutcome(): Outcome {
  const maker = new Maker()
  setUp(maker)
  issueAndChange(maker)
  archive(maker)
  importAndActivate(maker)
  const { licences } = maker.outcome
  pay(maker, 'payment', 4_900)
  refund(maker, 'full_refund', 4_900)
  pay(maker, 'payment', 4_900)
  refund(maker, 'partial_refund', 500)
  pay(maker, 'payment', 4_900)
  chargeBack(maker)
  pay(maker, 'subscription', 1_250)
  renewAndEnd(maker)
  sell(maker)
  float(maker)
  tryOut(maker)
  look(maker)
  const { counters, plans } = maker.outcome
  const active = licences.filter(({ status }) => status === 'active').length
  plans.find(({ id }) => id === 'pln_1')!.activeLicences = active
  counters.push({ name: 'active licences of pln_1', kept: active, counted: active })
  return maker.outcome
}

function setUp(maker: Maker): void {
  const { outcome } = maker
  for (const [planId, code] of [
    ['pln_1', 'steady'],
    ['pln_2', 'changing'],
  ] as const) {
    maker.send({ do: 'create plan', appId, code, name: code }, { id: planId })
    maker.send({ do: 'rename plan', planId, name: `${code} two` })
    const retired = planId === 'pln_2'
    const status = retired ? 'retired' : 'active'
    outcome.plans.push({ id: planId, appId, code, name: `${code} two`, status, activeLicences: 0 })
    outcome.planCopies.push({ planId, catalog: { status, version: 3 }, licensing: { status, version: 3 } })
  }
  maker.send({ do: 'create plan', appId, code: 'refused', name: 'refused' }, {}, 'refused', 422)
  for (const id of ['ent_1', 'ent_2']) maker.send({ do: 'define', appId, key: id }, { id })
  maker.send({ do: 'delete definition', definitionId: 'ent_2' })
  outcome.definitions.push({ id: 'ent_1', appId, key: 'ent_1' })
  for (const id of ['key_2', 'key_3']) maker.send({ do: 'create key', accountId, name: id }, { id })
  maker.send({ do: 'revoke key', keyId: 'key_3' })
  outcome.apiKeys.push(
    { id: 'key_2', accountId, name: 'key_2', revoked: false, accepted: true },
    { id: 'key_3', accountId, name: 'key_3', revoked: true, accepted: false },
  )
  maker.send({ do: 'cap', accountId, capMinor: 60 })
  outcome.capMinor.push({ accountId, capMinor: 60, reached: 1 })
  maker.send({ do: 'create endpoint', appId, url }, { id: 'whe_1', secret })
  const endpoint = { appId, createdAt: maker.halfway, disabledReason: null, dead: false }
  outcome.endpoints.push({ ...endpoint, id: 'whe_1', url, status: 'enabled' })
  maker.send({ do: 'create endpoint', appId, url: `${url}/2` }, { id: 'whe_2', secret: 'whsec_2' })
  maker.send({ do: 'delete endpoint', endpointId: 'whe_2' })
  outcome.endpoints.push({
    ...endpoint,
    id: 'whe_2',
    url: `${url}/2`,
    status: 'disabled',
    disabledReason: 'deleted',
  })
  maker.event('spend_cap.reached', { period: '2026-11' })
  const test = maker.send({ do: 'test', endpointId: 'whe_1' })
  test.body = { event_id: maker.event('webhook.test', { ping: true }) }
}

function issueAndChange(maker: Maker): void {
  const issue = (number: number, answered: Answered[]) => {
    const asked = {
      do: 'issue',
      appId,
      key: `issue-${number}`,
      externalRef: `customer-${number}`,
      planId: 'pln_1',
    } as const
    const tries = answered.map((each) => maker.send(asked, {}, each, each === 'refused' ? 409 : 201))
    if (answered.includes('refused')) return undefined
    const licence = maker.licence({
      idempotencyKey: asked.key,
      externalRef: asked.externalRef,
      maxActivations: 2,
    })
    for (const each of tries) if (each.answered === 'acknowledged') each.body = { id: licence.id }
    maker.change(licence, 'issued', 'active')
    return licence
  }
  const first = issue(1, ['acknowledged'])!
  maker.verb(first, 'suspend', 'suspended', 'suspended')
  maker.send(
    { do: 'verb', verb: 'suspend', licenceId: first.id },
    { current: 'suspended', allowed: ['reactivate'] },
    'refused',
    409,
  )
  maker.verb(first, 'reactivate', 'reactivated', 'active')
  // Two requests without an answer: the first was executed, the second was not.
  maker.send({ do: 'verb', verb: 'suspend', licenceId: first.id }, {}, 'unknown', 0)
  maker.change(first, 'suspended', 'suspended')
  maker.send({ do: 'verb', verb: 'reactivate', licenceId: first.id }, {}, 'unknown', 503)
  issue(2, ['unknown', 'acknowledged'])
  issue(3, ['refused'])
  const unanswered = issue(4, ['unknown'])!
  maker.verb(unanswered, 'revoke', 'revoked', 'revoked')
  maker.send({ do: 'verb', verb: 'revoke', licenceId: unanswered.id }, { status: 'revoked' })
}

function archive(maker: Maker): void {
  const asked = { do: 'issue', appId, key: 'issue-5', externalRef: 'customer-5', planId: 'pln_2' } as const
  const issue = maker.send(asked, {}, 'acknowledged', 201)
  const licence = maker.licence({
    idempotencyKey: asked.key,
    externalRef: asked.externalRef,
    planId: asked.planId,
  })
  issue.body = { id: licence.id }
  maker.change(licence, 'issued', 'active')
  maker.send({ do: 'archive', planId: 'pln_2' }, { suspended_licences: 1 })
  maker.change(licence, 'suspended', 'suspended', { cause: 'archive:pln_2:3' })
}

function importAndActivate(maker: Maker): void {
  const items = ['a', 'b'].map((legacyKey) => ({
    legacyKey,
    externalRef: `imported-${legacyKey}`,
    planId: 'pln_1',
  }))
  const sent = maker.send({ do: 'import', appId, items })
  const licence = maker.licence({ legacyKey: 'a', externalRef: 'imported-a' })
  maker.change(licence, 'imported', 'active')
  sent.body = {
    items: [
      { legacy_key: 'a', result: 'created', licence_id: licence.id },
      { legacy_key: 'b', result: 'failed', licence_id: null },
    ],
  }
  const activate = (fingerprint: string, answered: Answered) => {
    const id = `act_${fingerprint}`
    const body = answered === 'acknowledged' ? { activation_id: id } : {}
    const asked = { do: 'activate', licenceId: 'lic_1', fingerprint, replaces: false } as const
    maker.send(asked, body, answered, 201)
    if (answered !== 'refused')
      maker.outcome.activations.push({ id, licenceId: 'lic_1', fingerprint, deactivated: false })
  }
  activate('one', 'acknowledged')
  activate('two', 'unknown')
  activate('three', 'refused')
  const freed = { do: 'activate', licenceId: 'lic_2', fingerprint: 'freed', replaces: false } as const
  maker.send(freed, { activation_id: 'act_freed' })
  maker.send({ do: 'free', activationId: 'act_freed' })
}

/** A floating licence with one lease, which different machines use in turn. */
function float(maker: Maker): void {
  const { outcome } = maker
  const asked = { do: 'issue', appId, key: 'issue-6', externalRef: 'floating', planId: 'pln_1' } as const
  const issue = maker.send(asked)
  const licence = maker.licence({
    idempotencyKey: asked.key,
    externalRef: asked.externalRef,
    maxConcurrent: 1,
  })
  issue.body = { id: licence.id }
  maker.change(licence, 'issued', 'active')
  const activate = (fingerprint: string, replaces = false) => {
    const activation = { id: `act_${fingerprint}`, licenceId: licence.id, fingerprint, deactivated: false }
    const leaseEndsAt = new Date(maker.halfway + 60_000).toISOString()
    const body = { activation_id: activation.id, licence_id: licence.id, lease_ends_at: leaseEndsAt }
    maker.send({ do: 'activate', licenceId: licence.id, fingerprint, replaces }, body)
    outcome.activations.push(activation)
  }
  activate('released')
  maker.send({ do: 'release', activationId: 'act_released' })
  activate('replaced')
  activate('replacing', true)
  const position = outcome.history.length + 1
  const freed = { type: 'activation_freed', actor: 'product', cause: 'act_replaced', at: maker.halfway }
  outcome.history.push({ ...freed, position, licenceId: licence.id, from: 'active', to: 'active' })
  outcome.activations = outcome.activations.filter(({ id }) => id !== 'act_replaced')
  outcome.leases.push({ licenceId: licence.id, running: 1 })
}

/** A trial that two requests start at once, and a refused trial. */
function tryOut(maker: Maker): void {
  const { outcome } = maker
  const asked = { do: 'try', appId, fingerprint: 'tried' } as const
  const [first, again] = [maker.send(asked, {}, 'acknowledged', 201), maker.send(asked)]
  const licence = maker.licence({ maxActivations: 1 })
  licence.externalRef = `trial_${licence.id}`
  first.body = again.body = { licence_id: licence.id, activation_id: 'act_tried' }
  maker.change(licence, 'trial_started', 'active', { actor: 'product' })
  outcome.activations.push({
    id: 'act_tried',
    licenceId: licence.id,
    fingerprint: 'tried',
    deactivated: false,
  })
  outcome.trials.push({ appId, fingerprintHash: hashOf(appId, 'tried'), licenceId: licence.id })
  maker.send({ ...asked, fingerprint: 'refused' }, {}, 'refused', 404)
}

function look(maker: Maker): void {
  const { outcome } = maker
  const from = maker.send({ do: 'read', path: '/v1/licences' }).from
  outcome.walks.push({ appId, from, ids: outcome.licences.map(({ id }) => id) })
  const events = outcome.events.map(({ id, sequence }) => ({ id, sequence }))
  outcome.feedReads.push({ accountId, events })
}

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
  const entry = { accountId, paymentId: id, kind: 'charge', amountMinor: fields.feeMinor }
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
  maker.outcome.fees.push({ id: `fee_c${maker.paid}`, ...credit })
}

function chargeBack(maker: Maker): void {
  const { payment, licence } = latest(maker)
  const ref = `du_${maker.paid}`
  maker.outcome.processor.chargebacks.push({ ref, chargeRef: payment.chargeRef!, amount: payment.amount })
  maker.change(licence, 'revoked', 'revoked', { actor: 'processor', cause: ref })
  bookRefund(maker, ref, 'chargeback', payment.amount)
}

function renewAndEnd(maker: Maker): void {
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
