import { keyed } from '@licensing/changes/testing/keyed'
import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus, LicenceVerb } from '@licensing/proto/closed-sets'
import { newId } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  events,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  refusal,
  restore,
  statusOf,
  verbOn,
  atOnce,
} from '../../test/makers.ts'

const harness = await forFile(startHarness)

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

test.each(closedSets.licenceVerb)(
  '%s of a licence of another account is answered like for an unknown licence',
  async (verb) => {
    const status: LicenceStatus = verb === 'reactivate' ? 'suspended' : 'active'
    const licence = await givenLicenceIn(harness, status)
    expect((await refusal(call(verb, licence, { accountId: 'acct_other' }))).code).toBe('not_found')
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
  await givenLicence(harness)
  await expect(harness.sql`update licence_history set actor = 'me'`).rejects.toThrow('append-only')
  await expect(harness.sql`delete from licence_history`).rejects.toThrow('append-only')
  await expect(harness.sql`truncate licence_history`).rejects.toThrow('append-only')
})

test.each(['without', 'with'])(
  'concurrent calls %s keys share transactions, and each has its own answer, history and event',
  async (keys) => {
    const plan = await givenPlan(harness)
    const licences = await atOnce(60, () => givenLicence(harness, { planId: plan.id }))
    const revoked = await givenLicenceIn(harness, 'revoked', plan.id)
    const before = (await events(harness)).length
    const suspend = (licence: { id: string }, actor: string) => {
      const made = () => harness.licensing.suspendLicence({ ...verbOn(harness, licence), actor })
      return keys === 'with' ? keyed(`/${licence.id}/suspend`, made, { key: actor }) : made()
    }
    const twice = licences[0]!
    const answers = await Promise.allSettled([
      ...licences.map((licence, at) => suspend(licence, `key_${at}`)),
      suspend(twice, 'key_again'),
      suspend(revoked, 'key_again'),
      suspend({ id: newId('lic') }, 'key_again'),
    ])
    const refused = answers.slice(60).map((answer) => answer.status === 'rejected' && String(answer.reason))
    expect(answers.slice(0, 60).map(({ status }) => status)).toEqual(licences.map(() => 'fulfilled'))
    expect(refused).toEqual([
      expect.stringContaining('is suspended'),
      expect.stringContaining('is revoked'),
      expect.stringContaining('there is no licence'),
    ])
    const entries = await harness.sql<{ licence_id: string; actor: string; xact: string }[]>`
    select licence_id, actor, xmin::text as xact from licence_history
    where type = 'suspended' and licence_id = any(${licences.map(({ id }) => id)}::text[])`
    expect(new Map(entries.map(({ licence_id, actor }) => [licence_id, actor]))).toEqual(
      new Map(licences.map(({ id }, at) => [id, `key_${at}`])),
    )
    expect(entries).toHaveLength(60)
    expect(new Set(entries.map(({ xact }) => xact)).size).toBeLessThan(20)
    expect((await events(harness)).slice(before).map(({ object }) => object['licence_id'])).toHaveLength(60)
    expect(await activeOn(harness, plan)).toBe(0n)
  },
)

test('a licence that another transaction has locked delays no call for another licence', async () => {
  const plan = await givenPlan(harness)
  const [locked, ...free] = await atOnce(10, () => givenLicence(harness, { planId: plan.id }))
  let waiting: Promise<unknown> = Promise.resolve()
  await harness.sql.begin(async (tx) => {
    await tx`select id from licences where id = ${locked!.id} for update`
    waiting = call('suspend', locked!)
    await Promise.all(free.map((licence) => call('suspend', licence)))
    expect(await statusOf(harness, locked!)).toBe('active')
  })
  expect(await waiting).toMatchObject({ status: 'suspended' })
})
