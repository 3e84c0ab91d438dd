import type { Outcome, Sent } from '../../outcome.ts'
import type { RuleName } from '../check.ts'

interface Sabotage {
  /** What has gone wrong: "it sees …". */
  what: string
  change: (outcome: Outcome) => void
  rule: RuleName
}

function remove<Item>(items: Item[], matches: (item: Item) => boolean): void {
  items.splice(items.findIndex(matches), 1)
}

function first<Item>(items: Item[], matches: (item: Item) => boolean = () => true): Item {
  const found = items.find(matches)
  if (found === undefined) throw new Error('the good outcome has none')
  return found
}

/** Puts a changed copy of the first that matches beside it. */
function repeat<Item>(items: Item[], matches: (item: Item) => boolean, changes: Partial<Item> = {}): void {
  items.push({ ...first(items, matches), ...changes })
}

const did = (what: Sent['asked']['do']) => (sent: Sent) => sent.asked.do === what
const licence = (outcome: Outcome, id: string) => first(outcome.licences, (each) => each.id === id)

const ofLicences: Sabotage[] = [
  {
    what: 'a lost licence',
    change: ({ licences }) => remove(licences, ({ id }) => id === 'lic_2'),
    rule: 'an issue is there as it was answered',
  },
  {
    what: 'a second licence of one idempotency key',
    change: ({ licences }) => repeat(licences, ({ id }) => id === 'lic_2', { id: 'lic_twin' }),
    rule: 'an issue is there as it was answered',
  },
  {
    what: 'another licence than the one that was answered',
    change: (outcome) => void (licence(outcome, 'lic_2').id = 'lic_other'),
    rule: 'an issue is there as it was answered',
  },
  {
    what: 'a licence on another plan than the one asked for',
    change: (outcome) => void (licence(outcome, 'lic_2').planId = 'pln_other'),
    rule: 'an issue is there as it was answered',
  },
  {
    what: 'a refused issue that happened',
    change: ({ licences }) =>
      repeat(licences, ({ id }) => id === 'lic_2', { id: 'lic_no', idempotencyKey: 'issue-3' }),
    rule: 'an issue is there as it was answered',
  },
  {
    what: 'an issue answered twice with different licences',
    change: ({ sent }) => repeat(sent, did('issue'), { body: { id: 'lic_3' } }),
    rule: 'an issue is there as it was answered',
  },
  {
    what: 'a lost import',
    change: ({ licences }) => remove(licences, ({ legacyKey }) => legacyKey === 'a'),
    rule: 'an import is there as it was answered',
  },
  {
    what: 'an item that failed and was imported',
    change: ({ licences }) =>
      repeat(licences, ({ legacyKey }) => legacyKey === 'a', { id: 'lic_b', legacyKey: 'b' }),
    rule: 'an import is there as it was answered',
  },
  {
    what: 'an import that was answered as created twice',
    change: ({ sent }) => repeat(sent, did('import')),
    rule: 'an import is there as it was answered',
  },
  {
    what: 'a licence that nobody asked for',
    change: ({ licences }) =>
      repeat(licences, ({ id }) => id === 'lic_2', { id: 'lic_x', idempotencyKey: 'issue-99' }),
    rule: 'every licence was asked for',
  },
  {
    what: 'a paid licence without a payment',
    change: ({ provisions }) => remove(provisions, ({ paymentRef }) => paymentRef === 'sale:sale-1'),
    rule: 'every licence was asked for',
  },
  {
    what: 'a lost activation',
    change: ({ activations }) => remove(activations, ({ id }) => id === 'act_one'),
    rule: 'activations are as they were answered',
  },
  {
    what: 'a freed activation that is there again',
    change: ({ activations }) =>
      void activations.push({ id: 'act_freed', licenceId: 'lic_2', fingerprint: 'freed' }),
    rule: 'activations are as they were answered',
  },
  {
    what: 'more activations than the licence allows',
    change: (outcome) => void (licence(outcome, 'lic_1').maxActivations = 1),
    rule: 'activations are as they were answered',
  },
  {
    what: 'a refused activation that happened',
    change: ({ activations }) =>
      void activations.push({ id: 'act_x', licenceId: 'lic_1', fingerprint: 'three' }),
    rule: 'activations are as they were answered',
  },
  {
    what: 'a row that a walk through the list misses',
    change: ({ walks }) => void walks[0]!.ids.shift(),
    rule: 'a list shows each row once',
  },
  {
    what: 'a row that a walk through the list shows twice',
    change: ({ walks }) => void walks[0]!.ids.push('lic_1'),
    rule: 'a list shows each row once',
  },
  {
    what: 'an active licence on a retired plan',
    change: (outcome) => void (licence(outcome, 'lic_2').planId = 'pln_2'),
    rule: 'no licence is active on a retired plan',
  },
  {
    what: 'a licence past its end that is active',
    change: (outcome) => void (licence(outcome, 'lic_2').expiresOn = 1),
    rule: 'licences past their end are expired',
  },
  {
    what: 'a revocation that is missing from the list',
    change: ({ revocations }) => void revocations.pop(),
    rule: 'the revocation list is complete',
  },
  {
    what: 'a gap in the versions of the revocation list',
    change: ({ revocations }) => void (revocations.at(-1)!.version += 1),
    rule: 'the revocation list is complete',
  },
]

const ofHistories: Sabotage[] = [
  {
    what: 'a lost history entry',
    change: ({ history }) =>
      remove(history, ({ licenceId, type }) => licenceId === 'lic_1' && type === 'suspended'),
    rule: 'a history is one legal order',
  },
  {
    what: 'a licence whose status is not the end of its history',
    change: (outcome) => void (licence(outcome, 'lic_2').status = 'suspended'),
    rule: 'a history is one legal order',
  },
  {
    what: 'a transition that the rules do not have',
    change: ({ history }) => {
      const last = first(history, ({ licenceId, type }) => licenceId === 'lic_3' && type === 'revoked')
      history.push({ ...last, position: 1_000, type: 'reactivated', from: 'revoked', to: 'active' })
    },
    rule: 'a history is one legal order',
  },
  {
    what: 'an acknowledged verb that left no trace',
    change: ({ sent }) => {
      repeat(sent, ({ asked }) => asked.do === 'verb' && asked.verb === 'reactivate', { from: 1, to: 2 })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'a refused verb that happened',
    change: ({ sent }) => {
      const unanswered = first(sent, ({ asked, answered }) => asked.do === 'verb' && answered === 'unknown')
      Object.assign(unanswered, { answered: 'refused', status: 409 })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'a verb that happened twice',
    change: ({ history }) => {
      const [suspended] = history.filter(({ type }) => type === 'suspended')
      history.push({ ...suspended!, position: 1_000, at: suspended!.at + 1 })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'a change by a key that nobody asked for',
    change: ({ history }) => {
      const issued = first(history, ({ licenceId }) => licenceId === 'lic_2')
      history.push({ ...issued, position: 1_000, type: 'retired', from: 'active', to: 'retired' })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'an archive that suspended fewer licences than it answered',
    change: ({ sent }) => void (first(sent, did('archive')).body = { suspended_licences: 2 }),
    rule: 'an archive suspends what it says',
  },
  {
    what: 'a refused archive that suspended licences',
    change: ({ sent }) => void (first(sent, did('archive')).answered = 'refused'),
    rule: 'an archive suspends what it says',
  },
  {
    what: 'two changes in the wrong order',
    change: ({ history }) => {
      const suspended = first(history, ({ type }) => type === 'suspended')
      const reactivated = first(history, ({ type }) => type === 'reactivated')
      const { position } = suspended
      suspended.position = reactivated.position
      reactivated.position = position
    },
    rule: 'what was answered first happened first',
  },
  {
    what: 'an answer that says another status than the verb leads to',
    change: ({ sent }) => void (first(sent, did('verb')).body = { status: 'active' }),
    rule: 'an answer says what the verb did',
  },
  {
    what: 'a refusal for a status that the licence never had',
    change: ({ sent }) => {
      first(sent, ({ asked, status }) => asked.do === 'verb' && status === 409).body = { current: 'retired' }
    },
    rule: 'a refusal names a status that was',
  },
]

const ofTheCatalog: Sabotage[] = [
  {
    what: 'a lost plan',
    change: ({ plans }) => void plans.shift(),
    rule: 'plans are as they were answered',
  },
  {
    what: 'a lost change of a plan',
    change: ({ plans }) => void (plans[0]!.name = 'steady'),
    rule: 'plans are as they were answered',
  },
  {
    what: 'a refused plan that is there',
    change: ({ plans }) => repeat(plans, ({ id }) => id === 'pln_1', { id: 'pln_x', code: 'refused' }),
    rule: 'plans are as they were answered',
  },
  {
    what: 'an archive that was undone',
    change: ({ plans }) => void (plans[1]!.status = 'active'),
    rule: 'a plan has the status it was given',
  },
  {
    what: 'a copy of a plan that was not brought up to date',
    change: ({ planCopies }) => void (planCopies[0]!.licensing!.version = 2),
    rule: 'copies of plans are the plans',
  },
  {
    what: 'a lost definition',
    change: ({ definitions }) => void definitions.pop(),
    rule: 'definitions are as they were answered',
  },
  {
    what: 'a deleted definition that is there',
    change: ({ definitions }) => void definitions.push({ id: 'ent_2', appId: 'app_1', key: 'ent_2' }),
    rule: 'definitions are as they were answered',
  },
  {
    what: 'a lost API key',
    change: ({ apiKeys }) => void apiKeys.shift(),
    rule: 'API keys are as they were answered',
  },
  {
    what: 'a revoked API key that is still accepted',
    change: ({ apiKeys }) => void (apiKeys[1]!.accepted = true),
    rule: 'API keys are as they were answered',
  },
  {
    what: 'an API key revoked by nobody',
    change: ({ apiKeys }) => void Object.assign(apiKeys[0]!, { revoked: true, accepted: false }),
    rule: 'API keys are as they were answered',
  },
  {
    what: 'a lost change of the spend cap',
    change: ({ capMinor }) => void (capMinor[0]!.capMinor = null),
    rule: 'the spend cap is as it was answered',
  },
  {
    what: 'a lost endpoint',
    change: ({ endpoints }) => void endpoints.shift(),
    rule: 'endpoints are as they were answered',
  },
  {
    what: 'a deleted endpoint in force',
    change: ({ endpoints }) => void (endpoints[1]!.status = 'enabled'),
    rule: 'endpoints are as they were answered',
  },
  {
    what: 'an endpoint disabled though its receiver answered',
    change: ({ endpoints }) =>
      void Object.assign(endpoints[0]!, { status: 'disabled', disabledReason: 'retries_exhausted' }),
    rule: 'endpoints are as they were answered',
  },
]

const ofEvents: Sabotage[] = [
  {
    what: 'a gap in the sequence',
    change: ({ events }) => remove(events, ({ sequence }) => sequence === 4),
    rule: 'sequences have no gap and no twin',
  },
  {
    what: 'a twin in the sequence',
    change: ({ events }) => repeat(events, ({ sequence }) => sequence === 4, { id: 'evt_twin' }),
    rule: 'sequences have no gap and no twin',
  },
  {
    what: 'an event recorded twice',
    change: ({ events }) => repeat(events, ({ sequence }) => sequence === 4, { sequence: events.length + 1 }),
    rule: 'sequences have no gap and no twin',
  },
  {
    what: 'a change without an event',
    change: ({ events }) => void (first(events, ({ type }) => type === 'licence.reactivated').object = {}),
    rule: 'a change has one event, in order',
  },
  {
    what: 'a change with two events',
    change: ({ events }) =>
      repeat(events, ({ type }) => type === 'licence.reactivated', {
        id: 'evt_x',
        sequence: events.length + 1,
      }),
    rule: 'a change has one event, in order',
  },
  {
    what: 'events of a licence in the wrong order',
    change: ({ events }) => {
      const [one, other] = events.filter(({ object }) => object['licence_id'] === 'lic_1')
      const { sequence } = one!
      one!.sequence = other!.sequence
      other!.sequence = sequence
    },
    rule: 'a change has one event, in order',
  },
  {
    what: 'a payment without its event',
    change: ({ events }) => void (first(events, ({ type }) => type === 'payment.succeeded').type = 'other'),
    rule: 'a payment has its events',
  },
  {
    what: 'a refund without its event',
    change: ({ events }) =>
      void (first(events, ({ type }) => type === 'refund.processed').object['amount'] = 1),
    rule: 'a payment has its events',
  },
  {
    what: 'a cap that was said to be reached twice',
    change: ({ events }) => repeat(events, ({ type }) => type === 'spend_cap.reached', { id: 'evt_x' }),
    rule: 'a payment has its events',
  },
  {
    what: 'a failed provision that no event tells of',
    change: ({ events }) => remove(events, ({ type }) => type === 'payment.provision_failed'),
    rule: 'a failed provision is told once',
  },
  {
    what: 'a failed provision told twice',
    change: ({ events }) =>
      repeat(events, ({ type }) => type === 'payment.provision_failed', { id: 'evt_x' }),
    rule: 'a failed provision is told once',
  },
  {
    what: 'a lost test event',
    change: ({ events }) => remove(events, ({ type }) => type === 'webhook.test'),
    rule: 'test events are as they were answered',
  },
  {
    what: 'a test event that nobody asked for',
    change: ({ events }) => repeat(events, ({ type }) => type === 'webhook.test', { id: 'evt_x' }),
    rule: 'test events are as they were answered',
  },
  {
    what: 'a feed that changed after it was read',
    change: ({ feedReads }) => void (feedReads[0]!.events[2]!.id = 'evt_former'),
    rule: 'the feed never changes',
  },
  {
    what: 'a reader of the feed that was led past an event',
    change: ({ feedReads }) => void feedReads[0]!.events.splice(2, 1),
    rule: 'the feed never changes',
  },
]

const ofDeliveries: Sabotage[] = [
  {
    what: 'an event without a delivery',
    change: ({ deliveries }) => void deliveries.pop(),
    rule: 'an event has one delivery an endpoint',
  },
  {
    what: 'an event with two deliveries to one endpoint',
    change: ({ deliveries }) => repeat(deliveries, () => true, { id: 'dlv_twin' }),
    rule: 'an event has one delivery an endpoint',
  },
  {
    what: 'a delivery that never arrived',
    change: ({ arrivals }) => void arrivals.pop(),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery that counts an error for success',
    change: ({ arrivals }) => void (arrivals[0]!.accepted = false),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery that is still waiting',
    change: ({ deliveries }) => void (deliveries[0]!.status = 'pending'),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery given up though its endpoint is in force',
    change: ({ deliveries }) => void (deliveries[0]!.status = 'failed'),
    rule: 'a delivery has arrived',
  },
  {
    what: 'an event that arrived and was never recorded',
    change: ({ arrivals }) => repeat(arrivals, () => true, { eventId: 'evt_none' }),
    rule: 'what arrives is what was recorded',
  },
  {
    what: 'an event that arrived with other bytes',
    change: ({ arrivals }) => void (arrivals[0]!.body += ' '),
    rule: 'what arrives is what was recorded',
  },
  {
    what: 'a signature of another secret',
    change: ({ arrivals }) => void (arrivals[0]!.signature = `t=1,v1=${'0'.repeat(64)}`),
    rule: 'what arrives is what was recorded',
  },
]

const ofMoney: Sabotage[] = [
  {
    what: 'a lost sale',
    change: ({ sales }) => void sales.shift(),
    rule: 'sales and checkouts are as they were answered',
  },
  {
    what: 'a lost checkout',
    change: ({ sessions }) => void sessions.shift(),
    rule: 'sales and checkouts are as they were answered',
  },
  {
    what: 'a payment that is not booked',
    change: ({ payments }) => void payments.shift(),
    rule: 'payments are what was paid',
  },
  {
    what: 'a payment booked twice',
    change: ({ payments }) => repeat(payments, () => true, { id: 'pay_twin' }),
    rule: 'payments are what was paid',
  },
  {
    what: 'a renewal that is not booked',
    change: ({ payments }) => remove(payments, ({ invoiceRef }) => invoiceRef === 'in_renewal'),
    rule: 'payments are what was paid',
  },
  {
    what: 'a payment of another amount',
    change: ({ payments }) => void (payments[0]!.amount += 1),
    rule: 'payments are what was paid',
  },
  {
    what: 'a paid checkout that nothing came of',
    change: ({ sessions }) => void (sessions[0]!.status = 'open'),
    rule: 'payments are what was paid',
  },
  {
    what: 'a payment that provisioned another licence than billing says',
    change: ({ provisions }) => void (provisions[0]!.licenceId = 'lic_1'),
    rule: 'licensing and billing agree',
  },
  {
    what: 'a payment that provisioned twice',
    change: ({ history }) => repeat(history, ({ type }) => type === 'created', { position: 1_000 }),
    rule: 'licensing and billing agree',
  },
  {
    what: 'a fee that was not charged',
    change: ({ fees }) => void fees.shift(),
    rule: 'the ledger is right',
  },
  {
    what: 'a fee charged twice',
    change: ({ fees }) => repeat(fees, ({ kind }) => kind === 'charge', { id: 'fee_twin' }),
    rule: 'the ledger is right',
  },
  {
    what: 'a credit that is missing after a full refund',
    change: ({ fees }) => remove(fees, ({ kind }) => kind === 'credit'),
    rule: 'the ledger is right',
  },
  {
    what: 'a credit given twice',
    change: ({ fees }) => repeat(fees, ({ kind }) => kind === 'credit', { id: 'fee_twin' }),
    rule: 'the ledger is right',
  },
  {
    what: 'a refund that is not booked',
    change: ({ refunds }) => void refunds.shift(),
    rule: 'refunds are what was given back',
  },
  {
    what: 'a refund without a consequence',
    change: ({ refunds }) => void (refunds[0]!.processed = false),
    rule: 'refunds are what was given back',
  },
  {
    what: 'a refund booked twice',
    change: ({ refunds }) => repeat(refunds, () => true, { id: 'rfd_twin' }),
    rule: 'refunds are what was given back',
  },
  {
    what: 'a refunded licence that still works',
    change: ({ licences, sessions }) =>
      void (first(licences, ({ id }) => id === sessions[0]!.licenceId).status = 'active'),
    rule: 'a licence follows its payment',
  },
  {
    what: 'a charged back licence that still works',
    change: ({ licences, sessions }) =>
      void (first(licences, ({ id }) => id === sessions[2]!.licenceId).status = 'active'),
    rule: 'a licence follows its payment',
  },
  {
    what: 'a licence that outlives its subscription',
    change: ({ licences, sessions }) =>
      void (first(licences, ({ id }) => id === sessions[3]!.licenceId).status = 'active'),
    rule: 'a licence follows its payment',
  },
]

const ofFigures: Sabotage[] = [
  {
    what: 'a counter that is off by one',
    change: ({ counters }) => void (counters[0]!.kept += 1),
    rule: 'counters are what is counted',
  },
  {
    what: 'a plan that miscounts its licences',
    change: ({ plans }) => void (plans[0]!.activeLicences -= 1),
    rule: 'plans count their active licences',
  },
  {
    what: 'an event left in an outbox',
    change: ({ leftovers }) => void (leftovers[0]!.count = 1),
    rule: 'nothing is left over',
  },
  {
    what: 'a consumer that is behind',
    change: ({ lags }) => void (lags[0]!.behind = 1),
    rule: 'nothing is left over',
  },
  {
    what: 'a request of more than a minute',
    change: ({ sent }) => void (sent[0]!.from -= 60_000),
    rule: 'no request takes over a minute',
  },
  {
    what: 'a process that is ready late',
    change: ({ ready }) => void (ready[0]!.afterMs = 10_001),
    rule: 'ready within ten seconds',
  },
  {
    what: 'a process that is never ready',
    change: ({ ready }) => void (ready[0]!.afterMs = null),
    rule: 'ready within ten seconds',
  },
  {
    what: 'a process that ended by itself',
    change: ({ crashes }) => void crashes.push({ process: 'billing-1', at: 1 }),
    rule: 'no process ends by itself',
  },
]

/** Everything that the check is shown to see, one at a time. */
export const sabotages: Sabotage[] = [
  ...ofLicences,
  ...ofHistories,
  ...ofTheCatalog,
  ...ofEvents,
  ...ofDeliveries,
  ...ofMoney,
  ...ofFigures,
]
