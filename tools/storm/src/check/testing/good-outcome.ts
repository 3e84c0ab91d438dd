import { createHmac } from 'node:crypto'
import type { HistoryType, LicenceStatus } from '@licensing/proto/closed-sets'
import type { Answered, Asked, HistoryEntry, Licence, Outcome, Payment, Sent } from '../../outcome.ts'
import { hashOf } from '../licences.ts'

export const [accountId, appId] = ['acct_1', 'app_1']
const [secret, url] = ['whsec_1', 'https://localhost:1/steady/of-1']

/** A correct outcome with some data of every kind. */
export function goodOutcome(): Outcome {
  const outcome: Outcome = {
    ...emptyLists(),
    accounts: [{ accountId, appId }],
    processor: { paid: [], renewals: [], refunds: [], chargebacks: [], ended: [] },
    counters: [{ name: 'fees of acct_1 in 2026-11', kept: 124, counted: 124 }],
    leftovers: [
      { name: 'outbox of licensing', count: 0 },
      { name: 'events of licensing 3 that notifier has not read', count: 0 },
    ],
    startMs: 5_000,
    ready: [{ process: 'licensing-1', afterMs: 900 }],
    crashes: [],
  }
  const maker = makerOf(outcome)
  setUp(outcome, maker)
  change(maker)
  importAndActivate(outcome, maker)
  pay(outcome, maker)
  sell(outcome, maker)
  float(outcome, maker)
  tryOut(outcome, maker)
  const { from } = maker.send({ do: 'read', path: '/v1/licences' })
  outcome.walks.push({ appId, from, ids: outcome.licences.map(({ id }) => id) })
  outcome.feedReads.push({ accountId, events: outcome.events.map(({ id, sequence }) => ({ id, sequence })) })
  outcome.plans[0]!.activeLicences = outcome.licences.filter(({ status }) => status === 'active').length
  return outcome
}

const ofLoad = ['sent', 'feedReads', 'walks'] as const
const ofLicensing = [
  'licences',
  'history',
  'activations',
  'leases',
  'trials',
  'revocations',
  'provisions',
] as const
const ofCatalog = [
  'plans',
  'catalogPlans',
  'planCopies',
  'definitions',
  'apiKeys',
  'capMinor',
  'auditLog',
] as const
const ofNotifier = ['events', 'endpoints', 'deliveries', 'arrivals'] as const
const ofBilling = ['sessions', 'sales', 'saleFacts', 'payments', 'refunds', 'fees'] as const

function emptyLists() {
  const names = [...ofLoad, ...ofLicensing, ...ofCatalog, ...ofNotifier, ...ofBilling]
  return Object.fromEntries(names.map((name) => [name, []])) as unknown as Pick<
    Outcome,
    (typeof names)[number]
  >
}

type Maker = ReturnType<typeof makerOf>

/** Adds to an outcome write by write. A request takes 100 ms, and its effect happens after 50 ms. */
function makerOf(outcome: Outcome) {
  let now = 1_000_000
  const maker = {
    halfway: () => now - 50,
    send: (
      asked: Asked,
      body: Sent['body'] = {},
      answered: Answered = 'acknowledged',
      status = 200,
    ): Sent => {
      now += 100
      const sent: Sent = { asked, from: now - 100, to: now, answered, status, body }
      outcome.sent.push(sent)
      return sent
    },
    licence: (fields: Partial<Licence>): Licence => {
      const number = outcome.licences.length + 1
      const none = { legacyKey: null, idempotencyKey: null, maxActivations: null, maxConcurrent: null }
      const texts = {
        id: `lic_${number}`,
        appId,
        planId: 'pln_1',
        status: 'active' as const,
        externalRef: `customer-${number}`,
      }
      const licence = { ...texts, ...none, expiresOn: null, ...fields }
      outcome.licences.push(licence)
      return licence
    },
    /** Changes a licence: its status, its history, and its event if it has one. */
    change: (
      licence: Licence,
      type: HistoryType,
      to: LicenceStatus,
      by: Partial<HistoryEntry> = {},
    ): void => {
      const { id: licenceId } = licence
      const from = outcome.history.findLast((entry) => entry.licenceId === licenceId)?.to ?? null
      const entry = { licenceId, at: maker.halfway(), type, from, to, actor: 'key_1', cause: null, ...by }
      outcome.history.push({ position: outcome.history.length + 1, ...entry })
      licence.status = to
      if (type === 'revoked')
        outcome.revocations.push({ appId, version: outcome.revocations.length + 1, licenceId })
      const isSilent = ['issued', 'imported', 'renewed', 'activation_freed'].includes(type)
      if (!isSilent) maker.event(`licence.${type}`, { licence_id: licenceId, status: to })
    },
    /** Records and delivers an event. */
    event: (type: string, object: Record<string, unknown>): string => {
      const sequence = outcome.events.length + 1
      const id = `evt_${sequence}`
      const body = JSON.stringify({ id, type, sequence, data: { object } })
      outcome.events.push({ id, type, sequence, createdAt: maker.halfway(), accountId, appId, object, body })
      outcome.deliveries.push({
        id: `dlv_${sequence}`,
        endpointId: 'whe_1',
        eventId: id,
        status: 'delivered',
      })
      const mac = createHmac('sha256', secret).update(`1.${body}`).digest('hex')
      const arrived = { url: `${url}?v=1`, eventId: id, body, signature: `t=1,v1=${mac}`, header: '3' }
      outcome.arrivals.push({ ...arrived, accepted: true })
      return id
    },
    /** Issues a licence by requests with these answers. */
    issue: (number: number, answers: Answered[], fields: Partial<Licence> = {}): Licence => {
      const [key, externalRef] = [`issue-${number}`, `customer-${number}`]
      const asked = { do: 'issue', appId, key, externalRef, planId: fields.planId ?? 'pln_1' } as const
      const tries = answers.map((each) => maker.send(asked, {}, each, 201))
      const licence = maker.licence({ idempotencyKey: key, externalRef, ...fields })
      for (const each of tries) if (each.answered === 'acknowledged') each.body = { id: licence.id }
      maker.change(licence, 'issued', 'active')
      return licence
    },
    activate: (
      licence: Licence,
      fingerprint: string,
      answered: Answered = 'acknowledged',
      lease = {},
    ): void => {
      const asked = {
        do: 'activate',
        licenceId: licence.id,
        fingerprint,
        replaces: fingerprint === 'replacing',
      } as const
      const body = { activation_id: `act_${fingerprint}`, licence_id: licence.id, ...lease }
      maker.send(asked, answered === 'acknowledged' ? body : {}, answered)
      if (answered === 'refused') return
      outcome.activations.push({
        id: `act_${fingerprint}`,
        licenceId: licence.id,
        fingerprint,
        deactivated: false,
      })
    },
  }
  return maker
}

function setUp(outcome: Outcome, { send, event, halfway }: Maker): void {
  const entry = (operation: string, resourceId: string, fields: Record<string, unknown> = {}) => {
    const changes = Object.entries(fields).map(([name, to]) => [name, { from: null, to }] as const)
    outcome.auditLog.push({ operation, resourceId, appId, changes: Object.fromEntries(changes) })
  }
  for (const [id, code, status] of [
    ['pln_1', 'steady', 'active'],
    ['pln_2', 'changing', 'retired'],
  ] as const) {
    send({ do: 'create plan', appId, code, name: code }, { id })
    send({ do: 'rename plan', planId: id, name: `${code} two` })
    entry('createPlan', id, { name: code, status: 'active' })
    entry('updatePlan', id, { name: `${code} two` })
    outcome.plans.push({ id, appId, code, name: `${code} two`, status, activeLicences: 0 })
    outcome.catalogPlans.push({ id, status, version: 3 })
    outcome.planCopies.push({ id, status, version: 3 })
  }
  send({ do: 'create plan', appId, code: 'refused', name: 'refused' }, {}, 'refused', 422)
  entry('archivePlan', 'pln_2', { status: 'retired' })
  for (const id of ['ent_1', 'ent_2']) {
    send({ do: 'define', appId, key: id }, { id })
    entry('createEntitlementDefinition', id)
  }
  send({ do: 'delete definition', definitionId: 'ent_2' })
  entry('deleteEntitlementDefinition', 'ent_2')
  outcome.definitions.push({ id: 'ent_1', appId, key: 'ent_1' })
  for (const id of ['key_2', 'key_3']) {
    send({ do: 'create key', accountId, name: id }, { id })
    outcome.apiKeys.push({ id, accountId, name: id, revoked: id === 'key_3', accepted: id === 'key_2' })
    entry('createApiKey', id)
  }
  send({ do: 'revoke key', keyId: 'key_3' })
  entry('revokeApiKey', 'key_3')
  send({ do: 'cap', accountId, capMinor: 60 })
  entry('setSpendCap', accountId, { cap_minor: 60 })
  outcome.capMinor.push({ accountId, capMinor: 60, reached: 1 })
  const reasons = { disabledReason: null, description: null, dead: false }
  const enabled = { id: 'whe_1', appId, url, status: 'enabled', ...reasons }
  const deleted = { id: 'whe_2', url: `${url}/2`, status: 'disabled', disabledReason: 'deleted' }
  outcome.endpoints.push(enabled, { ...enabled, ...deleted })
  for (const { id, url } of outcome.endpoints) {
    send({ do: 'create endpoint', appId, url }, { id, secret: id === 'whe_1' ? secret : 'whsec_2' })
    entry('createWebhookEndpoint', id)
  }
  const changed = { url: `${url}?v=1`, description: '2' }
  send({ do: 'change endpoint', endpointId: 'whe_1', ...changed, header: '3' })
  Object.assign(outcome.endpoints[0]!, changed)
  send({ do: 'delete endpoint', endpointId: 'whe_2' })
  entry('deleteWebhookEndpoint', 'whe_2')
  entry('sendTestEvent', 'whe_1')
  event('spend_cap.reached', { period: '2026-11' })
  const test = send({ do: 'test', endpointId: 'whe_1' })
  test.body = { event_id: event('webhook.test', { ping: halfway() }) }
}

function change({ send, issue, change }: Maker): void {
  const first = issue(1, ['acknowledged'], { maxActivations: 2 })
  const verb = { do: 'verb', licenceId: first.id } as const
  send({ ...verb, verb: 'suspend' }, { status: 'suspended' })
  change(first, 'suspended', 'suspended')
  send({ ...verb, verb: 'suspend' }, { current: 'suspended', allowed: ['reactivate'] }, 'refused', 409)
  send({ ...verb, verb: 'reactivate' }, { status: 'active' })
  change(first, 'reactivated', 'active')
  // Two requests without an answer: the first was executed, the second was not.
  send({ ...verb, verb: 'suspend' }, {}, 'unknown', 0)
  change(first, 'suspended', 'suspended')
  send({ ...verb, verb: 'reactivate' }, {}, 'unknown', 503)
  issue(2, ['unknown', 'acknowledged'])
  send({ do: 'issue', appId, key: 'issue-3', externalRef: 'customer-3', planId: 'pln_1' }, {}, 'refused', 409)
  const third = issue(4, ['unknown'])
  send({ do: 'verb', verb: 'revoke', licenceId: third.id }, { status: 'revoked' })
  change(third, 'revoked', 'revoked')
  send({ do: 'verb', verb: 'revoke', licenceId: third.id }, { status: 'revoked' })
  const archived = issue(5, ['acknowledged'], { planId: 'pln_2' })
  send({ do: 'archive', planId: 'pln_2' }, { suspended_licences: 1 })
  change(archived, 'suspended', 'suspended', { cause: 'archive:pln_2:3' })
}

function importAndActivate(outcome: Outcome, { send, licence, change, activate }: Maker): void {
  const { licences } = outcome
  const items = ['a', 'b'].map((legacyKey) => ({ legacyKey, externalRef: legacyKey, planId: 'pln_1' }))
  const sent = send({ do: 'import', appId, items })
  const imported = licence({ legacyKey: 'a', externalRef: 'a' })
  change(imported, 'imported', 'active')
  const results = { created: imported.id, failed: null }
  sent.body = { items: Object.entries(results).map(([result, id]) => ({ result, licence_id: id })) }
  activate(licences[0]!, 'one')
  activate(licences[0]!, 'two', 'unknown')
  activate(licences[0]!, 'three', 'refused')
  send(
    { do: 'activate', licenceId: 'lic_2', fingerprint: 'freed', replaces: false },
    { activation_id: 'act_freed' },
  )
  send({ do: 'free', activationId: 'act_freed' })
  // Two requests at once: only one of them removes the machine.
  activate(licences[0]!, 'removed')
  const removal = { do: 'remove', activationId: 'act_removed', licenceId: licences[0]!.id } as const
  send(removal)
  send(removal, {}, 'refused', 404)
  change(licences[0]!, 'activation_freed', licences[0]!.status, { actor: 'customer', cause: 'act_removed' })
  outcome.activations = outcome.activations.filter(({ id }) => id !== 'act_removed')
}

/** A floating licence with one lease, which different machines use in turn. */
function float(outcome: Outcome, { send, issue, change, activate, halfway }: Maker): void {
  const licence = issue(6, ['acknowledged'], { maxConcurrent: 1 })
  const lease = { lease_ends_at: new Date(halfway() + 60_000).toISOString() }
  activate(licence, 'released', 'acknowledged', lease)
  send({ do: 'release', activationId: 'act_released' })
  activate(licence, 'replaced', 'acknowledged', lease)
  activate(licence, 'replacing', 'acknowledged', lease)
  change(licence, 'activation_freed', 'active', { actor: 'product', cause: 'act_replaced' })
  outcome.activations = outcome.activations.filter(({ id }) => id !== 'act_replaced')
  outcome.leases.push({ licenceId: licence.id, running: 1 })
}

/** A trial that two requests start at once, and a refused trial. */
function tryOut(outcome: Outcome, { send, licence, change }: Maker): void {
  const asked = { do: 'try', appId, fingerprint: 'tried' } as const
  const both = [send(asked, {}, 'acknowledged', 201), send(asked)]
  const trial = licence({ maxActivations: 1 })
  trial.externalRef = `trial_${trial.id}`
  for (const each of both) each.body = { licence_id: trial.id, activation_id: 'act_tried' }
  change(trial, 'trial_started', 'active', { actor: 'product' })
  outcome.activations.push({ id: 'act_tried', licenceId: trial.id, fingerprint: 'tried', deactivated: false })
  outcome.trials.push({ appId, fingerprintHash: hashOf(appId, 'tried'), licenceId: trial.id })
  send({ ...asked, fingerprint: 'refused' }, {}, 'refused', 404)
}

/** Four checkouts: refunded in full, refunded in part, charged back, and a subscription that was renewed and has ended. */
function pay(outcome: Outcome, { send, licence, change, event }: Maker): void {
  const { processor, sessions, provisions, refunds, fees } = outcome
  const buy = (number: number, amount: number, invoiceRef: string | null = null) => {
    const [id, externalRef] = [`cs_${number}`, `buyer-${number}`]
    send({ do: 'checkout', appId, externalRef, planId: 'pln_1' }, { id })
    const bought = licence({ externalRef })
    change(bought, 'created', 'active', { actor: 'processor', cause: id })
    event('payment.succeeded', { licence_id: bought.id, amount, currency: 'usd' })
    processor.paid.push({ sessionId: id, amount })
    provisions.push({ appId, paymentRef: id, licenceId: bought.id })
    sessions.push({ id, appId, externalRef, status: 'provisioned', licenceId: bought.id, amount })
    const refs = { sourceKey: `checkout:${id}`, sessionId: id, invoiceRef, chargeRef: `ch_${number}` }
    const payment = book(outcome, amount, { licenceId: bought.id, ...refs })
    const giveBack = (
      list: 'refunds' | 'chargebacks',
      lane: string,
      returned: number,
      to: 'revoked' | 'downgraded',
    ) => {
      const [ref, chargeRef] = [`re_${number}`, `ch_${number}`]
      processor[list].push({ ref, chargeRef, amount: returned })
      change(bought, to, to, { actor: 'processor', cause: ref })
      refunds.push({
        id: `rfd_${number}`,
        paymentId: payment.id,
        ref,
        lane,
        amount: returned,
        processed: true,
      })
      event('refund.processed', { licence_id: bought.id, charge_ref: chargeRef, amount: returned, lane })
    }
    return { id, bought, payment, giveBack }
  }
  const full = buy(1, 4_900)
  full.giveBack('refunds', 'full_refund', 4_900, 'revoked')
  fees.push({ id: 'fee_c', paymentId: full.payment.id, kind: 'credit', amountMinor: -full.payment.feeMinor })
  buy(2, 4_900).giveBack('refunds', 'partial_refund', 500, 'downgraded')
  buy(3, 4_900).giveBack('chargebacks', 'chargeback', 4_900, 'revoked')
  const { id, bought } = buy(4, 1_250, 'in_4')
  processor.renewals.push({ invoiceRef: 'in_renewal', amount: 1_250 })
  change(bought, 'renewed', 'active', { actor: 'processor', cause: 'in_renewal' })
  const refs = {
    sourceKey: `invoice:${id}:in_renewal`,
    sessionId: id,
    invoiceRef: 'in_renewal',
    chargeRef: 'ch_r',
  }
  book(outcome, 1_250, { licenceId: bought.id, ...refs })
  processor.ended.push(id)
  change(bought, 'expired', 'expired', { actor: 'processor', cause: 'sub_1' })
}

function book({ payments, fees }: Outcome, amount: number, fields: Partial<Payment>): Payment {
  const id = `pay_${payments.length + 1}`
  const feeMinor = fields.saleId ? 0 : Math.floor((amount * 100 + 5_000) / 10_000)
  const none = { sessionId: null, saleId: null, invoiceRef: null, licenceId: null, chargeRef: null }
  const payment = { id, sourceKey: '', ...none, amount, feeMinor, ...fields }
  payments.push(payment)
  if (feeMinor > 0)
    fees.push({ id: `fee_${fees.length}`, paymentId: id, kind: 'charge', amountMinor: feeMinor })
  return payment
}

/** A sale that made a licence, was renewed and charged back, and a sale that could not. */
function sell(outcome: Outcome, { send, licence, change, event, halfway }: Maker): void {
  const asked = { do: 'sale', appId, externalRef: 'sold-1', planId: 'pln_1' } as const
  const sale = send({ ...asked, saleId: 'sale-1' })
  const sold = licence({ externalRef: 'sold-1' })
  sale.body = { id: 'sale_1', licence_id: sold.id }
  change(sold, 'created', 'active', { actor: 'processor', cause: 'sale:sale-1' })
  outcome.provisions.push({ appId, paymentRef: 'sale:sale-1', licenceId: sold.id })
  send({ ...asked, saleId: 'sale-2', planId: 'pln_2' }, { id: 'sale_2', licence_id: null })
  event('payment.provision_failed', { session_id: 'sale_2' })
  outcome.sales.push(
    { id: 'sale_1', appId, saleId: 'sale-1', status: 'provisioned', licenceId: sold.id },
    { id: 'sale_2', appId, saleId: 'sale-2', status: 'provision_failed', licenceId: null },
  )
  book(outcome, 100, { saleId: 'sale-1', licenceId: sold.id })
  book(outcome, 100, { saleId: 'sale-2' })
  const tell = (kind: string, id: string, amount: number | null, renewalId: string | null = null) => {
    const about = { appId, saleId: 'sale-1', kind, id }
    send({ do: 'sale fact', ...about })
    outcome.saleFacts.push({ ...about, at: halfway(), amount, renewalId })
  }
  tell('failure', 'fact-1', null)
  tell('renewal', 'fact-2', 90)
  const { id: paymentId } = book(outcome, 90, { saleId: 'sale-1', chargeRef: 'fact-2', licenceId: sold.id })
  tell('chargeback', 'fact-3', 9, 'fact-2')
  change(sold, 'revoked', 'revoked', { actor: 'processor', cause: 'fact-3' })
  const returned = { lane: 'chargeback', amount: 9 }
  outcome.refunds.push({ id: 'rfd_s', paymentId, ref: 'fact-3', processed: true, ...returned })
  event('refund.processed', { licence_id: sold.id, charge_ref: 'fact-2', ...returned })
}
