import type { Answered, Outcome } from '../../outcome.ts'
import { chargeBack, pay, refund, renewAndEnd, sell } from './good-payments.ts'
import { accountId, appId, Maker, secret, url } from './maker.ts'

/** An outcome with a little of everything, in which nothing is wrong. */
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
  // Not answered, and it happened; not answered, and it did not.
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
    maker.send({ do: 'activate', licenceId: 'lic_1', fingerprint }, body, answered, 201)
    if (answered !== 'refused') maker.outcome.activations.push({ id, licenceId: 'lic_1', fingerprint })
  }
  activate('one', 'acknowledged')
  activate('two', 'unknown')
  activate('three', 'refused')
  maker.send({ do: 'activate', licenceId: 'lic_2', fingerprint: 'freed' }, { activation_id: 'act_freed' })
  maker.send({ do: 'free', activationId: 'act_freed' })
}

function look(maker: Maker): void {
  const { outcome } = maker
  const from = maker.send({ do: 'read', path: '/v1/licences' }).from
  outcome.walks.push({ appId, from, ids: outcome.licences.map(({ id }) => id) })
  const events = outcome.events.map(({ id, sequence }) => ({ id, sequence }))
  outcome.feedReads.push({ accountId, events })
}
