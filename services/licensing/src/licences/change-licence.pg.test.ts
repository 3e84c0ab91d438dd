import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import {
  activeOn,
  actor,
  archive,
  countedOn,
  events,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
  refusal,
  restore,
  statusOf,
  verbOn,
} from '../testing/makers.ts'
import { allowedVerbs, licenceStatuses, transitions, vendorVerbs } from './licence.ts'
import type { LicenceStatus, Transition, VendorVerb } from './licence.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

const call = (verb: VendorVerb, licence: { id: string }, more: { accountId?: string } = {}) => {
  const request = { ...verbOn(harness, licence), ...more }
  const { licensing } = harness
  const calls: Record<VendorVerb, () => Promise<unknown>> = {
    suspend: () => licensing.suspendLicence(request),
    reactivate: () => licensing.reactivateLicence(request),
    revoke: () => licensing.revokeLicence(request),
    retire: () => licensing.retireLicence(request),
  }
  return calls[verb]()
}

const eventOf: Record<VendorVerb, string> = {
  suspend: 'licence.suspended',
  reactivate: 'licence.reactivated',
  revoke: 'licence.revoked',
  retire: 'licence.retired',
}

const everyCase = licenceStatuses.flatMap((status) =>
  vendorVerbs.map((verb) => ({ status, verb, transition: transitions[verb] as Transition })),
)
const changes = everyCase.filter(({ status, transition }) => transition.from.includes(status))
const repeats = everyCase.filter(({ status, transition }) => transition.unchangedIn?.includes(status))
const conflicts = everyCase.filter((one) => !changes.includes(one) && !repeats.includes(one))

/** A licence in a state, and all that must not change when it does not. */
async function given(status: LicenceStatus) {
  const plan = await givenPlan(harness)
  const licence = await givenLicenceIn(harness, status, plan.id)
  const observe = async () => ({
    status: await statusOf(harness, licence),
    events: await events(harness, licence),
    history: await history(harness, licence),
    active: await activeOn(harness, plan),
    counted: await countedOn(harness, plan),
  })
  return { licence, before: await observe(), observe }
}

test.each(changes)('$verb changes a licence that is $status', async ({ status, verb, transition }) => {
  const { licence, before, observe } = await given(status)
  expect(await call(verb, licence)).toMatchObject({ id: licence.id, status: transition.to })
  const after = await observe()
  expect(after.status).toBe(transition.to)
  expect(after.events.slice(before.events.length)).toEqual([
    {
      type: eventOf[verb],
      object: {
        licence_id: licence.id,
        status: transition.to,
        ...(verb === 'suspend' && { reason: 'manual' }),
      },
      previous: null,
    },
  ])
  expect(after.history.slice(before.history.length)).toEqual([
    { type: transition.history, from: status, to: transition.to, actor, cause: undefined },
  ])
  expect(after.active).toBe(transition.to === 'active' ? 1n : 0n)
  expect(after.counted).toBe(after.active)
})

test.each(repeats)(
  '$verb of a licence that is $status answers it and changes nothing',
  async ({ status, verb }) => {
    const { licence, before, observe } = await given(status)
    expect(await call(verb, licence)).toMatchObject({ id: licence.id, status })
    expect(await observe()).toEqual(before)
  },
)

test.each(conflicts)('$verb of a licence that is $status is a conflict', async ({ status, verb }) => {
  const { licence, before, observe } = await given(status)
  const { code, message, members } = await refusal(call(verb, licence))
  expect({ code, members }).toEqual({
    code: 'conflict',
    members: { current: status, allowed: allowedVerbs(status, true) },
  })
  expect(message).toContain(`licence ${licence.id} is ${status};`)
  expect(await observe()).toEqual(before)
})

test('a suspension shows its reason for as long as it lasts', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  expect(await call('suspend', licence)).toMatchObject({ status: 'suspended', statusReason: 'manual' })
  const reactivated = await call('reactivate', licence)
  expect(reactivated).toMatchObject({ status: 'active' })
  expect(reactivated).not.toHaveProperty('statusReason')
})

test('reactivate on a retired plan is refused and says which plan to restore; after the restore it works', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  await archive(harness, plan)
  const { code, message, members } = await refusal(call('reactivate', licence))
  expect(code).toBe('plan_archived')
  expect(message).toContain(`restore plan ${plan.id} first`)
  expect(members).toEqual({ current: 'suspended', allowed: ['revoke', 'retire'] })
  await restore(harness, plan)
  expect(await statusOf(harness, licence)).toBe('suspended')
  expect(await call('reactivate', licence)).toMatchObject({ status: 'active' })
  expect(await activeOn(harness, plan)).toBe(1n)
})

test('on a retired plan a conflict does not offer to reactivate', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  await archive(harness, plan)
  const { code, members } = await refusal(call('suspend', licence))
  expect({ code, members }).toEqual({
    code: 'conflict',
    members: { current: 'suspended', allowed: ['revoke', 'retire'] },
  })
})

test.each(vendorVerbs)('%s of a stranger’s licence is the same as of none', async (verb) => {
  const plan = await givenPlan(harness)
  const status: LicenceStatus = verb === 'reactivate' ? 'suspended' : 'active'
  const licence = await givenLicenceIn(harness, status, plan.id)
  expect(await refusal(call(verb, licence, { accountId: 'acct_other' }))).toMatchObject({ code: 'not_found' })
  expect(await refusal(call(verb, { id: 'lic_none' }))).toMatchObject({ code: 'not_found' })
  const bound = harness.licensing.retireLicence({
    ...verbOn(harness, licence),
    onlyApplicationId: 'app_other',
  })
  expect(await refusal(bound)).toMatchObject({ code: 'not_found' })
  expect(await statusOf(harness, licence)).toBe(status)
})

test('history can neither be changed nor deleted', async () => {
  const plan = await givenPlan(harness)
  await givenLicence(harness, { planId: plan.id })
  await expect(harness.sql`update licence_history set actor = 'me'`).rejects.toThrow('append-only')
  await expect(harness.sql`delete from licence_history`).rejects.toThrow('append-only')
  await expect(harness.sql`truncate licence_history`).rejects.toThrow('append-only')
})
