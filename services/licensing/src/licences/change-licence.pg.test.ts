import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus, LicenceVerb } from '@licensing/proto/closed-sets'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  refusal,
  restore,
  statusOf,
  verbOn,
} from '../../test/makers.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

const call = (verb: LicenceVerb, licence: { id: string }, more: { accountId?: string } = {}) => {
  const request = { ...verbOn(harness, licence), ...more }
  const { licensing } = harness
  const calls: Record<LicenceVerb, () => Promise<unknown>> = {
    suspend: () => licensing.suspendLicence(request),
    reactivate: () => licensing.reactivateLicence(request),
    revoke: () => licensing.revokeLicence(request),
    retire: () => licensing.retireLicence(request),
  }
  return calls[verb]()
}

test('a refusal contains the current status', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicenceIn(harness, 'revoked', plan.id)
  const { message } = await refusal(call('suspend', licence))
  expect(message).toContain(`licence ${licence.id} is revoked;`)
})

test('a suspension shows its reason for as long as it lasts', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  expect(await call('suspend', licence)).toMatchObject({ status: 'suspended', statusReason: 'manual' })
  const reactivated = await call('reactivate', licence)
  expect(reactivated).toMatchObject({ status: 'active' })
  expect(reactivated).not.toHaveProperty('statusReason')
})

test('reactivate on a retired plan is refused with the plan to restore; after the restore it works', async () => {
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

test.each(closedSets.licenceVerb)(
  '%s of a licence of another account is the same as of none',
  async (verb) => {
    const plan = await givenPlan(harness)
    const status: LicenceStatus = verb === 'reactivate' ? 'suspended' : 'active'
    const licence = await givenLicenceIn(harness, status, plan.id)
    expect(await refusal(call(verb, licence, { accountId: 'acct_other' }))).toMatchObject({
      code: 'not_found',
    })
    expect(await refusal(call(verb, { id: 'lic_none' }))).toMatchObject({ code: 'not_found' })
    const bound = harness.licensing.retireLicence({
      ...verbOn(harness, licence),
      onlyApplicationId: 'app_other',
    })
    expect(await refusal(bound)).toMatchObject({ code: 'not_found' })
    expect(await statusOf(harness, licence)).toBe(status)
  },
)

test('history cannot be changed or deleted', async () => {
  const plan = await givenPlan(harness)
  await givenLicence(harness, { planId: plan.id })
  await expect(harness.sql`update licence_history set actor = 'me'`).rejects.toThrow('append-only')
  await expect(harness.sql`delete from licence_history`).rejects.toThrow('append-only')
  await expect(harness.sql`truncate licence_history`).rejects.toThrow('append-only')
})
