import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { StartTrialRequest, StartTrialResponse } from '@licensing/proto/products'
import { contentsOf } from '@licensing/test-support/contents'
import { createHash } from 'node:crypto'
import { afterEach, expect, test } from 'vitest'
import {
  activeOn,
  archive,
  changesOf,
  events,
  givenPlan,
  history,
  refusal,
  findWrongSnapshots,
  findWrongStatuses,
  verbOn,
  detailOf,
  licenceOf,
  settledAtOnce,
  update,
} from '../../test/makers.ts'
import { forFile, newVendor, startHarness } from '../../test/harness.ts'
import { callOf, givenActivation, verified } from '../../test/products.ts'
import { provision, unique } from '../../test/purchases.ts'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'
import { deleteOldTrialAddresses } from './trial-queries.ts'

const harness = await forFile(startHarness)
afterEach(() => {
  harness.clock.aheadMs = 0
})

const dayMs = 86_400_000
const givenTrialPlan = (fields: Parameters<typeof givenPlan>[1] = {}) =>
  givenPlan(harness, { code: unique('code'), trialDays: 14, ...fields })

function start(
  { code }: Pick<PlanCopy, 'code'>,
  asking: Partial<StartTrialRequest> = {},
  products = harness.products,
) {
  return products.startTrial({
    applicationId: harness.applicationId,
    planCode: code,
    fingerprint: 'machine-1',
    host: 'machine.example.com',
    productVersion: '1.0',
    address: '198.51.100.7',
    maxForAddress: 100_000,
    ...asking,
  })
}

const idOf = ({ grant }: Pick<StartTrialResponse, 'grant'>) => ({ id: grant!.licenceId })

/** The rows that a start can write. Background work writes other tables. */
async function written() {
  const contents = await contentsOf(harness.sql)
  const { licences, trials, trial_days, activations, licence_history, plan_counts, outbox } = contents
  return { licences, trials, trial_days, activations, licence_history, plan_counts, outbox }
}

test('a first trial is a licence without a customer, with an end and one slot, and the machine is activated', async () => {
  const entitlements = [{ key: 'seats', kind: 'limit', value: '3', default: '0' }]
  const plan = await givenTrialPlan({ entitlements })
  const asked = Date.now()
  const started = await start(plan, { fingerprint: unique('m'), nonce: 'n1' })
  expect(started.created).toBe(true)
  const { grant, licenceKey } = started
  const { licence, activations, callHome } = await detailOf(harness, idOf(started))
  expect(licence).toMatchObject({
    key: licenceKey,
    status: 'active',
    planId: plan.id,
    externalRef: `trial_${licence!.id}`,
    restrictions: { maxActivations: 1 },
    trial: true,
  })
  const lasts = timestampDate(licence!.expiresOn!).getTime() - timestampDate(licence!.createdAt!).getTime()
  expect(lasts).toBe(14 * dayMs)
  expect(timestampDate(licence!.createdAt!).getTime()).toBeGreaterThan(asked - 1_000)
  expect(activations).toMatchObject([{ id: grant!.activationId, host: 'machine.example.com' }])
  expect(callHome).toMatchObject([{ host: 'machine.example.com', productVersion: '1.0' }])
  expect(await verified(harness, grant!.token)).toMatchObject({
    sub: licence!.id,
    plan_id: plan.id,
    entitlements: { seats: '3' },
    nonce: 'n1',
  })
  expect(await events(harness, licence)).toEqual([
    {
      type: 'licence.trial_started',
      object: { licence_id: licence!.id, plan_id: plan.id, status: 'active' },
      previous: null,
    },
  ])
  expect(await history(harness, licence!)).toEqual([
    { type: 'trial_started', from: undefined, to: 'active', actor: 'product', cause: undefined },
  ])
  expect(await activeOn(harness, plan)).toBe(1n)
  expect(await findWrongSnapshots(harness)).toEqual({ missing: [], unused: [] })
  expect(await findWrongStatuses(harness)).toEqual([])
})

test('the same machine again has the same trial and activation, whichever plan it asks for', async () => {
  const [plan, other] = [await givenTrialPlan(), await givenTrialPlan({ trialDays: 30 })]
  const fingerprint = unique('m')
  const first = await start(plan, { fingerprint })
  for (const again of [
    await start(plan, { fingerprint }),
    await start(other, { fingerprint, host: 'OTHER.example.com', productVersion: '2' }),
  ]) {
    expect(again).toMatchObject({
      created: false,
      licenceKey: first.licenceKey,
      grant: { licenceId: first.grant!.licenceId, activationId: first.grant!.activationId },
    })
  }
  expect((await detailOf(harness, idOf(first))).activations).toHaveLength(1)
  expect(await events(harness, idOf(first))).toHaveLength(1)
  expect(await activeOn(harness, other)).toBe(0n)
})

test('if the activation was freed, by the product or the vendor, the machine is activated again', async () => {
  const plan = await givenTrialPlan()
  const fingerprint = unique('m')
  const first = await start(plan, { fingerprint })
  await harness.products.deactivate(callOf(first.grant!))
  const second = await start(plan, { fingerprint })
  expect(second).toMatchObject({ created: false, licenceKey: first.licenceKey })
  const { activationId } = second.grant!
  expect(activationId).not.toBe(first.grant!.activationId)
  await harness.licensing.freeActivation({ ...verbOn(harness, idOf(first)), activationId })
  const third = await start(plan, { fingerprint })
  expect(third.grant!.licenceId).toBe(first.grant!.licenceId)
  expect((await detailOf(harness, idOf(third))).activations).toMatchObject([
    { id: third.grant!.activationId },
  ])
  expect(await events(harness, idOf(first))).toHaveLength(1)
})

const tooMany = { code: 'quota_exceeded', members: { limit: 20 } }

test('an address starts 20 trials of an application on a UTC day, however many it asks for at once through two replicas', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own, { code: unique('code'), trialDays: 14 })
  const { products: replica } = await harness.replica()
  const from = { address: '203.0.113.7', maxForAddress: 20, applicationId: own.applicationId }
  const outcomes = await settledAtOnce(32, (at) =>
    start(plan, { ...from, fingerprint: `m-${at}` }, [harness.products, replica][at % 2]),
  )
  const started = outcomes.flatMap(({ status }, at) => (status === 'fulfilled' ? [`m-${at}`] : []))
  expect(started).toHaveLength(20)
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject(tooMany)
  }
  // A refused trial leaves nothing, so its machine can have it from another address.
  const refused = Array.from({ length: 32 }, (_, at) => `m-${at}`).find((each) => !started.includes(each))!
  expect(await start(plan, { ...from, address: '203.0.113.8', fingerprint: refused })).toMatchObject({
    created: true,
  })
  // Running trials are answered and not counted.
  for (const fingerprint of started)
    expect(await start(plan, { ...from, fingerprint })).toMatchObject({ created: false })
  const another = await givenTrialPlan()
  const elsewhere = { ...from, applicationId: harness.applicationId, fingerprint: unique('m') }
  expect(await start(another, elsewhere)).toMatchObject({ created: true })
  expect(await refusal(start(plan, { ...from, fingerprint: 'next' }))).toMatchObject(tooMany)
  await harness.sql`update trial_addresses set day = day - 1`
  expect(await start(plan, { ...from, fingerprint: 'next' })).toMatchObject({ created: true })
})

test('the address itself is not stored, and its counts of earlier days are deleted', async () => {
  const plan = await givenTrialPlan()
  await start(plan, { address: '203.0.113.99', fingerprint: unique('m') })
  expect(JSON.stringify(await contentsOf(harness.sql))).not.toContain('203.0.113.99')
  await harness.sql`update trial_addresses set day = day - 1`
  await start(plan, { address: '203.0.113.98', fingerprint: unique('m') })
  await deleteOldTrialAddresses(harness.sql, 1_000)
  expect(await harness.sql`select from trial_addresses`).toHaveLength(1)
})

type Happens = (licence: { id: string }) => Promise<unknown>

/** Changes of a running trial, and the reason with which the machine is refused after each. */
const ends: Record<string, [Happens, reason: string | undefined]> = {
  'its end has passed': [
    async () => {
      harness.clock.aheadMs = 14 * dayMs + 1_000
    },
    'trial_used',
  ],
  'it expired': [
    async ({ id }) => {
      await harness.sql`update licences set expires_on = now() - interval '1 second' where id = ${id}`
      await sweepExpiries(harness.deps)
    },
    'trial_used',
  ],
  'it was revoked': [(licence) => harness.licensing.revokeLicence(verbOn(harness, licence)), 'trial_used'],
  'it was suspended': [(licence) => harness.licensing.suspendLicence(verbOn(harness, licence)), 'suspended'],
  'it was suspended and reactivated': [
    async (licence) => {
      await harness.licensing.suspendLicence(verbOn(harness, licence))
      await harness.licensing.reactivateLicence(verbOn(harness, licence))
    },
    undefined,
  ],
  'a customer has it': [(licence) => update(harness, licence, { externalRef: 'customer' }), 'trial_used'],
  'a payment names its own reference': [
    async (licence) => {
      const { planId, externalRef } = await licenceOf(harness, licence)
      const paid = await provision(harness, { planId, externalRef })
      expect(paid).toMatchObject({ created: false, licence: { id: licence.id, trial: false } })
    },
    'trial_used',
  ],
  'the vendor prolonged it': [(licence) => update(harness, licence, { expiresOn: null }), undefined],
  'it is for another host': [
    (licence) => update(harness, licence, { restrictions: { domains: ['other.example.com'] } }),
    'domain_not_allowed',
  ],
}

test.each(Object.entries(ends))(
  'a machine that has had its trial, when %s',
  async (_what, [happens, reason]) => {
    const plan = await givenTrialPlan()
    const fingerprint = unique('m')
    const first = await start(plan, { fingerprint })
    await happens(idOf(first))
    const before = await written()
    if (reason === undefined) {
      expect(await start(plan, { fingerprint })).toMatchObject({
        created: false,
        grant: { licenceId: first.grant!.licenceId },
      })
      return
    }
    expect(await refusal(start(plan, { fingerprint }))).toMatchObject({
      code: 'licence_refused',
      members: { reason },
    })
    expect(await written()).toEqual(before)
  },
)

test('an unknown code and a plan without trials are not found, a retired plan is refused; nothing is written', async () => {
  const [plan, without, retired, ended] = [
    await givenTrialPlan(),
    await givenPlan(harness, { code: unique('code') }),
    await givenTrialPlan(),
    await givenPlan(harness, { code: unique('code') }),
  ]
  const elsewhere = await givenTrialPlan({ applicationId: newId('app') })
  await archive(harness, retired)
  await archive(harness, ended)
  const known = unique('m')
  await start(plan, { fingerprint: known })
  const before = await written()
  for (const [code, answer] of [
    ['unknown', 'not_found'],
    ['', 'not_found'],
    ['nul\0', 'not_found'],
    ['\ud800', 'not_found'],
    [plan.code.toUpperCase(), 'not_found'],
    [elsewhere.code, 'not_found'],
    [without.code, 'not_found'],
    [ended.code, 'not_found'],
    [retired.code, 'plan_archived'],
  ]) {
    expect(await refusal(start({ code: code! }, { fingerprint: unique('m') }))).toMatchObject({
      code: answer,
    })
    if (answer === 'not_found') {
      expect(await refusal(start({ code: code! }, { fingerprint: known }))).toMatchObject({ code: answer })
    }
  }
  expect(await written()).toEqual(before)
  // A running trial is not a new one.
  expect(await start(retired, { fingerprint: known })).toMatchObject({ created: false })
})

test('when the vendor ends the trials on a plan, running trials continue and no new one starts', async () => {
  const plan = await givenTrialPlan()
  const fingerprint = unique('m')
  const first = await start(plan, { fingerprint })
  const { trialDays: _trialDays, ...without } = plan
  await harness.licensing.syncPlans({ plans: [{ ...without, version: 2n }] })
  expect(await start(plan, { fingerprint })).toMatchObject({ created: false, licenceKey: first.licenceKey })
  expect(await refusal(start(plan, { fingerprint: unique('m') }))).toMatchObject({ code: 'not_found' })
})

test('a renamed code is found by its new name only', async () => {
  const plan = await givenTrialPlan()
  const code = unique('renamed')
  await harness.licensing.syncPlans({ plans: [{ ...plan, code, version: 2n }] })
  expect(await refusal(start(plan, { fingerprint: unique('m') }))).toMatchObject({ code: 'not_found' })
  expect(await start({ code }, { fingerprint: unique('m') })).toMatchObject({ created: true })
})

test('if two plans have one code for a moment, the plan whose copy is up to date is used', async () => {
  const [former, current] = [await givenTrialPlan(), await givenTrialPlan()]
  const { accountId, applicationId, sql } = harness
  for (const [stale, code] of [
    [former, current.code],
    [current, former.code],
  ] as const) {
    await sql`update plans set code = ${code} where id in (${former.id}, ${current.id})`
    await sql`delete from awaited_plans`
    await sql`
      insert into awaited_plans (plan_id, account_id, application_id, version, since)
      values (${stale.id}, ${accountId}, ${applicationId}, 9, now() + interval '1 hour')`
    const started = await start({ code }, { fingerprint: unique('m') })
    expect((await licenceOf(harness, idOf(started))).planId).not.toBe(stale.id)
  }
  await sql`delete from awaited_plans`
})

test.each([
  [{ fingerprint: '' }, '/fingerprint'],
  [{ fingerprint: 'x'.repeat(129) }, '/fingerprint'],
  [{ host: '' }, '/host'],
  [{ productVersion: '' }, '/product_version'],
  [{ nonce: 'x'.repeat(129) }, '/nonce'],
])('%j is invalid at %s, also with an unknown code', async (asking, pointer) => {
  expect(await refusal(start({ code: 'unknown' }, asking))).toMatchObject({
    code: 'validation_failed',
    errors: [{ pointer }],
  })
})

test('only a hash of the fingerprint is kept, and each application has trials of its own', async () => {
  const plan = await givenTrialPlan()
  const other = await givenTrialPlan({ applicationId: newId('app') })
  const fingerprint = unique('secret-machine')
  const [here, there] = [
    await start(plan, { fingerprint }),
    await start(other, { fingerprint, applicationId: other.applicationId }),
  ]
  expect([here.created, there.created]).toEqual([true, true])
  const rows = await harness.sql<{ application_id: string; fingerprint_hash: Buffer; licence_id: string }[]>`
    select application_id, fingerprint_hash, licence_id from trials
    where licence_id in (${here.grant!.licenceId}, ${there.grant!.licenceId})`
  expect(rows).toHaveLength(2)
  for (const { application_id, fingerprint_hash, licence_id } of rows) {
    expect(fingerprint_hash).toEqual(createHash('sha256').update(`${application_id} ${fingerprint}`).digest())
    expect(licence_id).toBe((application_id === harness.applicationId ? here : there).grant!.licenceId)
  }
})

test('a payment removes the limit that the licence got as a trial, unless the vendor has changed it', async () => {
  const changedTo: [restrictions: Parameters<typeof update>[2]['restrictions'], after: object | undefined][] =
    [
      [undefined, undefined],
      [{ maxActivations: 3 }, { maxActivations: 3 }],
      [{ maxActivations: 1, maxSeats: 5 }, { maxSeats: 5 }],
    ]
  for (const [restrictions, after] of changedTo) {
    const trial = idOf(await start(await givenTrialPlan(), { fingerprint: unique('m') }))
    const externalRef = unique('buyer')
    await update(harness, trial, { externalRef, ...(restrictions && { restrictions }) })
    const { key, planId, restrictions: before } = await licenceOf(harness, trial)
    expect(before?.maxActivations).toBe(restrictions?.maxActivations ?? 1)
    for (const _ of ['first', 'second']) await provision(harness, { planId, externalRef })
    const bought = await licenceOf(harness, trial)
    expect(bought).toMatchObject({ key, trial: false })
    const { domains: _domains, ...limits } = bought.restrictions ?? { domains: [] }
    expect(bought.restrictions && limits).toEqual(after && expect.objectContaining(after))
    if (restrictions?.maxActivations === 3) continue
    expect(bought.restrictions?.maxActivations).toBeUndefined()
    const removed = (await changesOf(harness, trial)).filter(({ actor }) => actor === 'processor')
    const limitsOf = (max?: object) => ({ ...max, ...(restrictions && { max_seats: 5 }) })
    expect(removed).toEqual([
      {
        actor: 'processor',
        changes: {
          restrictions: { from: limitsOf({ max_activations: 1 }), to: restrictions ? limitsOf() : null },
        },
      },
    ])
    await givenActivation(harness.products, bought, { fingerprint: unique('m') })
  }
})
