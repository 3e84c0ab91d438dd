import { expect, test } from 'vitest'
import type { Answered, Outcome, Sent } from '../outcome.ts'
import { check, rules, type RuleName } from './check.ts'
import { hashOf } from './licences.ts'
import { appId, goodOutcome } from './testing/good-outcome.ts'

type Change = (outcome: Outcome) => unknown

type List = { [Name in keyof Outcome]: Outcome[Name] extends unknown[] ? Name : never }[keyof Outcome]
type Item<Name extends List> = Outcome[Name][number]
/** A part of the item, or a function; by default the first item. */
type Where<Name extends List> = Partial<Item<Name>> | ((item: Item<Name>) => boolean)

function placeOf<Name extends List>(outcome: Outcome, name: Name, where: Where<Name> = {}): number {
  const matches = (item: Item<Name>) =>
    Object.entries(where).every(([key, value]) => item[key as never] === value)
  const place = (outcome[name] as Item<Name>[]).findIndex(typeof where === 'function' ? where : matches)
  if (place === -1) throw new Error(`the good outcome has no such item in ${name}`)
  return place
}
const itemOf = <Name extends List>(outcome: Outcome, name: Name, where?: Where<Name>): Item<Name> =>
  outcome[name][placeOf(outcome, name, where)]!

/** Functions that change, repeat, remove or swap items of a list. A repeated item has changes. */
const set =
  <Name extends List>(name: Name, changes: Partial<Item<Name>>, where?: Where<Name>): Change =>
  (outcome) =>
    Object.assign(itemOf(outcome, name, where), changes)
const repeat =
  <Name extends List>(name: Name, changes: Partial<Item<Name>>, where?: Where<Name>): Change =>
  (outcome) =>
    outcome[name].push({ ...itemOf(outcome, name, where), ...changes } as never)
const remove =
  <Name extends List>(name: Name, where?: Where<Name>): Change =>
  (outcome) =>
    outcome[name].splice(placeOf(outcome, name, where), 1)
const swap =
  <Name extends List>(name: Name, field: keyof Item<Name>, one: Where<Name>, other: Where<Name>): Change =>
  (outcome) => {
    const [left, right] = [itemOf(outcome, name, one), itemOf(outcome, name, other)]
    ;[left[field], right[field]] = [right[field], left[field]]
  }
const did =
  (what: Sent['asked']['do'], answered: Answered = 'acknowledged') =>
  (sent: Sent) =>
    sent.asked.do === what && sent.answered === answered

/** Defects that each rule must detect, by their description for the title "it sees …". */
const sabotages: Record<RuleName, Record<string, Change>> = {
  'each issue made the licence that was answered': {
    'a lost licence': remove('licences', { id: 'lic_2' }),
    'a second licence of one idempotency key': repeat('licences', { id: 'lic_twin' }, { id: 'lic_2' }),
    'a licence other than the answered one': set('licences', { id: 'lic_other' }, { id: 'lic_2' }),
    'a licence on another plan than requested': set('licences', { planId: 'pln_other' }, { id: 'lic_2' }),
    'a refused issue that happened': repeat('licences', { id: 'lic_no', idempotencyKey: 'issue-3' }),
    'an issue answered with two licences': repeat('sent', { body: { id: 'lic_3' } }, did('issue')),
  },
  'each import made the licence that was answered': {
    'a lost import': remove('licences', { legacyKey: 'a' }),
    'an item that failed and was imported': repeat('licences', { id: 'lic_b', legacyKey: 'b' }),
    'an imported licence other than the answered one': set('licences', { id: 'lic_x' }, { legacyKey: 'a' }),
    'an import that was answered as created twice': repeat('sent', {}, did('import')),
  },
  'every licence was requested': {
    'a licence that nobody asked for': repeat('licences', { id: 'lic_x', idempotencyKey: 'issue-99' }),
    'a paid licence without a payment': remove('provisions', { paymentRef: 'sale:sale-1' }),
  },
  'activations match the answers': {
    'a lost activation': remove('activations', { id: 'act_one' }),
    'a freed activation that exists again': repeat('activations', {
      licenceId: 'lic_2',
      fingerprint: 'freed',
    }),
    'more activations than the licence allows': set('licences', { maxActivations: 1 }),
    'a refused activation that happened': repeat('activations', { id: 'act_x', fingerprint: 'three' }),
    'a refused, deactivated activation': repeat('activations', { fingerprint: 'three', deactivated: true }),
    'a fingerprint that is activated twice': repeat('activations', { id: 'act_x', deactivated: true }),
    'six replaced activations on one day': (outcome) => {
      for (const cause of ['one', 'two', 'three', 'four', 'five'])
        repeat('history', { cause }, { cause: 'act_replaced' })(outcome)
    },
    'an activation replaced by nobody': remove('sent', ({ asked }) => 'replaces' in asked && asked.replaces),
  },
  'removals by customers match the answers, and are few a day': {
    'a removal without an entry': remove('history', { cause: 'act_removed' }),
    'a removal that two requests did': repeat('history', {}, { cause: 'act_removed' }),
    'a removal that nobody requested': repeat('history', { cause: 'act_one' }, { cause: 'act_removed' }),
    'four removals on one day': (outcome) => {
      for (const number of [1, 2, 3]) {
        repeat('history', { cause: `act_${number}` }, { cause: 'act_removed' })(outcome)
        const asked = { do: 'remove', activationId: `act_${number}`, licenceId: 'lic_1' } as const
        repeat('sent', { asked }, did('remove'))(outcome)
      }
    },
  },
  'leases that have not ended never exceed max_concurrent': {
    'more leases in the database than the licence allows': set('leases', { running: 2 }),
    'more leases in the answers than the licence allows': remove('sent', did('release')),
    'a lease that outlives its activation': set('history', { at: 2_000_000 }, { cause: 'act_replaced' }),
  },
  'a machine has one trial of an application': {
    'a lost trial': remove('trials'),
    'a second licence of a machine on trial': repeat(
      'sent',
      { body: { licence_id: 'lic_2' }, status: 200 },
      did('try'),
    ),
    'a trial that was started twice': repeat('sent', {}, did('try')),
    'a refused trial that happened': repeat('trials', {
      fingerprintHash: hashOf(appId, 'refused'),
      licenceId: 'x',
    }),
    'a trial that no machine asked for': repeat('trials', {
      fingerprintHash: hashOf(appId, 'silent'),
      licenceId: 'x',
    }),
    'a trial of two machines': repeat('trials', { fingerprintHash: hashOf(appId, 'other') }),
    'a licence on trial of no machine': repeat('licences', { id: 'lic_x', externalRef: 'trial_lic_x' }),
  },
  'a list shows each row once': {
    'a row that a walk through the list misses': ({ walks }) => walks[0]!.ids.shift(),
    'a row that a walk through the list shows twice': ({ walks }) => walks[0]!.ids.push('lic_1'),
  },
  'a history has only legal transitions': {
    'a lost history entry': remove('history', { type: 'suspended' }),
    'a licence whose status is not the end of its history': set(
      'licences',
      { status: 'suspended' },
      { id: 'lic_2' },
    ),
    'a transition that the rules do not have': set(
      'history',
      { type: 'reactivated', from: 'revoked', to: 'active' },
      { type: 'revoked' },
    ),
    'a history of no licence': repeat('history', { licenceId: 'lic_none' }),
  },
  'the history has each acknowledged verb once': {
    'an acknowledged verb that left no trace': repeat('sent', { from: 1, to: 2 }, did('verb')),
    'a refused verb that happened': set('sent', { answered: 'refused' }, did('verb', 'unknown')),
    'a verb that happened twice': repeat('history', { position: 1_000 }, { type: 'suspended' }),
    'a change by a key that nobody asked for': repeat('history', {
      type: 'retired',
      from: 'active',
      to: 'retired',
    }),
  },
  'an archive suspends as many licences as it answered': {
    'an archive that suspended fewer licences than it answered': set(
      'sent',
      { body: { suspended_licences: 2 } },
      did('archive'),
    ),
    'a refused archive that suspended licences': set('sent', { answered: 'refused' }, did('archive')),
  },
  'changes are in the order of their answers': {
    'two changes in the wrong order': swap(
      'history',
      'position',
      { type: 'suspended' },
      { type: 'reactivated' },
    ),
  },
  'an answer has the status that the verb leads to': {
    'an answer with another status than the verb leads to': set(
      'sent',
      { body: { status: 'active' } },
      did('verb'),
    ),
  },
  'a refusal names a status that the licence had': {
    'a refusal for a status that the licence never had': set(
      'sent',
      { body: { current: 'retired' } },
      did('verb', 'refused'),
    ),
  },
  'plans match the answers': {
    'a lost plan': remove('plans'),
    'a lost change of a plan': set('plans', { name: 'steady' }),
    'a refused plan that exists': repeat('plans', { id: 'pln_x', code: 'refused' }),
  },
  'a plan has the status that was set last': {
    'an archive that was undone': set('plans', { status: 'active' }, { id: 'pln_2' }),
  },
  'copies of plans equal the plans': {
    'a copy of a plan that was not updated': set('planCopies', { version: 2 }),
    'a plan without a copy': remove('planCopies'),
  },
  'no licence is active on a retired plan': {
    'an active licence on a retired plan': set('licences', { planId: 'pln_2' }, { id: 'lic_2' }),
  },
  'definitions match the answers': {
    'a lost definition': remove('definitions'),
    'a deleted definition that exists': repeat('definitions', { id: 'ent_2', appId, key: 'ent_2' }),
  },
  'API keys match the answers': {
    'a lost API key': remove('apiKeys'),
    'a revoked API key that is still accepted': set('apiKeys', { accepted: true }, { id: 'key_3' }),
    'a revoked API key that is not revoked': set(
      'apiKeys',
      { revoked: false, accepted: true },
      { id: 'key_3' },
    ),
    'an API key revoked by nobody': set('apiKeys', { revoked: true, accepted: false }),
  },
  'the audit log has each change once': {
    'a change without an entry': remove('auditLog', { operation: 'createApiKey' }),
    'a change of another service without an entry': remove('auditLog', {
      operation: 'deleteWebhookEndpoint',
    }),
    'a change with two entries': repeat('auditLog', {}, { operation: 'createPlan' }),
    'an entry without its change': repeat('auditLog', {}, { operation: 'revokeApiKey' }),
    'an entry of a refused change': repeat(
      'auditLog',
      { resourceId: 'ent_9' },
      { operation: 'createEntitlementDefinition' },
    ),
    'an entry with a value that the resource does not have': set(
      'auditLog',
      { changes: { name: { from: 'steady', to: 'steady three' } } },
      { operation: 'updatePlan' },
    ),
    'a test event without an entry': remove('auditLog', { operation: 'sendTestEvent' }),
  },
  'the spend cap matches the answers': {
    'a lost change of the spend cap': set('capMinor', { capMinor: null }),
  },
  'endpoints match the answers': {
    'a lost endpoint': remove('endpoints'),
    'a deleted endpoint that is still enabled': set('endpoints', { status: 'enabled' }, { id: 'whe_2' }),
    'an endpoint disabled though its receiver answered': set('endpoints', {
      status: 'disabled',
      disabledReason: 'retries_exhausted',
    }),
  },
  'an endpoint has what was set last': {
    'a lost change of an endpoint': set('endpoints', { description: null }),
    'a change of an endpoint that nobody requested': set('endpoints', { url: 'https://x' }, { id: 'whe_2' }),
  },
  'sequences have no gap and no duplicate': {
    'a gap in the sequence': remove('events', { sequence: 4 }),
    'a duplicate in the sequence': repeat('events', { id: 'evt_twin' }),
    'an event recorded twice': (outcome) =>
      repeat('events', { sequence: outcome.events.length + 1 })(outcome),
  },
  'each change has one event, in order': {
    'a change without an event': set('events', { object: {} }, { type: 'licence.reactivated' }),
    'a change with two events': repeat(
      'events',
      { id: 'evt_x', sequence: 1_000 },
      { type: 'licence.reactivated' },
    ),
    'events of a licence in the wrong order': swap(
      'events',
      'sequence',
      { type: 'licence.suspended' },
      { type: 'licence.reactivated' },
    ),
  },
  'each payment has its events': {
    'a payment without its event': set('events', { type: 'other' }, { type: 'payment.succeeded' }),
    'a refund without its event': set('events', { object: {} }, { type: 'refund.processed' }),
    'a cap that was reported as reached twice': repeat(
      'events',
      { id: 'evt_x' },
      { type: 'spend_cap.reached' },
    ),
  },
  'a failed provision is reported once': {
    'a failed provision without an event': remove('events', { type: 'payment.provision_failed' }),
    'a failed provision reported twice': repeat(
      'events',
      { id: 'evt_x' },
      { type: 'payment.provision_failed' },
    ),
  },
  'test events match the answers': {
    'a lost test event': remove('events', { type: 'webhook.test' }),
    'a test event that nobody asked for': repeat('events', { id: 'evt_x' }, { type: 'webhook.test' }),
  },
  'the feed never changes': {
    'a feed that changed after it was read': ({ feedReads }) => (feedReads[0]!.events[2]!.id = 'evt_former'),
    'a reader of the feed that missed an event': ({ feedReads }) => feedReads[0]!.events.splice(2, 1),
  },
  'an event has one delivery per endpoint': {
    'an event without a delivery': remove('deliveries'),
    'an event with two deliveries to one endpoint': repeat('deliveries', { id: 'dlv_twin' }),
    'a delivery of another application': set('events', { appId: 'app_2' }),
  },
  'a delivery has arrived': {
    'a delivery that never arrived': remove('arrivals'),
    'a delivery that treats an error as success': set('arrivals', { accepted: false }),
    'a delivery that is still waiting': set('deliveries', { status: 'pending' }),
    'a delivery that was given up although its endpoint is enabled': set('deliveries', { status: 'failed' }),
  },
  'received events equal the recorded events': {
    'an event that arrived and was never recorded': repeat('arrivals', { eventId: 'evt_none' }),
    'an event that arrived with other bytes': set('arrivals', { body: ' ' }),
    'a signature of another secret': set('arrivals', { signature: `t=1,v1=${'0'.repeat(64)}` }),
    'a second signature of another secret': ({ arrivals: [first] }) =>
      (first!.signature += `,v1=${'0'.repeat(64)}`),
  },
  'an attempt has only headers of its endpoint': {
    'a header of another endpoint': set('arrivals', { header: '4' }),
  },
  'sales and checkouts match the answers': {
    'a lost sale': remove('sales'),
    'a sale of another licence than the answered one': set('sales', { licenceId: 'lic_1' }),
    'a lost checkout': remove('sessions'),
  },
  'payments match the processor': {
    'a payment that is not booked': remove('payments'),
    'a payment booked twice': repeat('payments', { id: 'pay_twin' }),
    'a renewal that is not booked': remove('payments', { invoiceRef: 'in_renewal' }),
    'a payment of another amount': set('payments', { amount: 4_901 }),
    'a sale that is booked twice': repeat('payments', {}, { saleId: 'sale-1' }),
    'a renewal of another shop that is not booked': remove('payments', { chargeRef: 'fact-2' }),
    'a paid checkout that was never provisioned': set('sessions', { status: 'open' }),
  },
  'licensing and billing agree': {
    'a payment that provisioned another licence than billing says': set('provisions', { licenceId: 'lic_1' }),
    'a payment that provisioned twice': repeat('history', { position: 1_000 }, { type: 'created' }),
  },
  'the ledger is right': {
    'a fee that was not charged': remove('fees'),
    'a fee charged twice': repeat('fees', { id: 'fee_twin' }),
    'a credit that is missing after a full refund': remove('fees', { kind: 'credit' }),
    'a credit given twice': repeat('fees', { id: 'fee_twin' }, { kind: 'credit' }),
    'a fee of no payment': repeat('fees', { paymentId: 'pay_none' }),
  },
  'refunds match the processor': {
    'a refund that is not booked': remove('refunds'),
    'a refund without a consequence': set('refunds', { processed: false }),
    'a refund booked twice': repeat('refunds', { id: 'rfd_twin' }),
    'a chargeback of another shop that is not booked': remove('refunds', { ref: 'fact-3' }),
  },
  'a licence follows its payment': {
    'a refunded licence that still works': set('licences', { status: 'active' }, { externalRef: 'buyer-1' }),
    'a licence that is revoked after a partial refund': set(
      'licences',
      { status: 'revoked' },
      { externalRef: 'buyer-2' },
    ),
    'a charged back licence that still works': set(
      'licences',
      { status: 'active' },
      { externalRef: 'buyer-3' },
    ),
    'a revoked licence of which nothing was refunded': ({ processor }) => processor.refunds.shift(),
    'a licence that outlives its subscription': set(
      'licences',
      { status: 'active' },
      { externalRef: 'buyer-4' },
    ),
  },
  'facts of other shops match the answers': {
    'a lost fact': remove('saleFacts'),
    'a fact that nobody reported': repeat('saleFacts', { id: 'fact-x' }),
  },
  'a licence follows what another shop reports': {
    'a licence that outlives the chargeback of its sale': set(
      'licences',
      { status: 'active' },
      { externalRef: 'sold-1' },
    ),
  },
  'counters match the counted rows': {
    'a counter that is off by one': set('counters', { kept: 125 }),
  },
  'plans count their active licences': {
    'a plan that miscounts its licences': set('plans', { activeLicences: 1 }),
  },
  'the revocation list is complete': {
    'a revocation that is missing from the list': remove('revocations'),
    'a revocation that is in the list twice': repeat('revocations', { version: 4 }),
    'a gap in the versions of the revocation list': set('revocations', { version: 4 }, { version: 3 }),
  },
  'licences past their end are expired': {
    'a licence past its end that is active': set('licences', { expiresOn: 1 }, { id: 'lic_2' }),
  },
  'nothing is left over': {
    'an event left in an outbox': set('leftovers', { count: 1 }),
    'a consumer that is behind': set('leftovers', { count: 1 }, (each) => each.name.startsWith('events')),
  },
  'no request takes over a minute': {
    'a request of more than a minute': set('sent', { from: 1 }),
  },
  'ready within ten seconds, or as long as the first start took': {
    'a process that is ready late': set('ready', { afterMs: 10_001 }),
    'a process that is ready late on a slow machine': (outcome) =>
      Object.assign(outcome, { startMs: 12_000, ready: [{ process: 'x', afterMs: 12_001 }] }),
    'a process that is never ready': set('ready', { afterMs: null }),
  },
  'no process ends by itself': {
    'a process that ended by itself': ({ crashes }) => crashes.push({ process: 'billing-1', at: 1 }),
  },
}

test('a correct outcome has no violation', () => {
  expect(check(goodOutcome())).toEqual([])
})

const each = Object.entries(sabotages).flatMap(([rule, defects]) =>
  Object.entries(defects).map(([what, change]) => ({ what, rule, change })),
)

test('each rule has a sabotage', () => {
  expect(new Set(each.map(({ rule }) => rule))).toEqual(new Set(Object.keys(rules)))
})

test.for(each)('it sees $what', ({ change, rule }) => {
  const outcome = goodOutcome()
  change(outcome)
  expect(outcome, 'the sabotage changes nothing').not.toEqual(goodOutcome())
  expect(new Set(check(outcome).map((violation) => violation.rule))).toContain(rule)
})
