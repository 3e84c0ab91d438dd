import type { Licence } from '@licensing/proto/licensing'
import { setQuota } from '@licensing/quotas/quota-queries'
import { afterEach, expect, test } from 'vitest'
import { expectLeasesConsistent, passMinutes } from '../../test/leases.ts'
import {
  givenLicence,
  givenPlan,
  history,
  refusal,
  verbOn,
  detailOf,
  settledAtOnce,
} from '../../test/makers.ts'
import type { IssueFields } from '../../test/makers.ts'
import { forFile, startHarness, newVendor } from '../../test/harness.ts'
import { activate, activateOffline, callOf, givenActivation, tokenOf } from '../../test/products.ts'

const harness = await forFile(startHarness)
const { products: other } = await harness.replica()
afterEach(() => expectLeasesConsistent(harness))

const given = (fields: IssueFields = {}) => givenLicence(harness, fields)

const install = (licence: Licence, fingerprint: string) =>
  givenActivation(harness.products, licence, { fingerprint })

const replacing = (
  licence: { key: string },
  fingerprint: string,
  { replace = 'oldest', products = harness.products } = {},
) =>
  products.activate({
    licenceKey: licence.key,
    fingerprint,
    host: 'machine.example.com',
    productVersion: '1.0',
    replace,
  })

async function installed(licence: Licence): Promise<string[]> {
  const { activations } = await detailOf(harness, licence)
  return activations.map(({ fingerprint }) => fingerprint).toSorted()
}

const full = { code: 'limit_reached' }
const yesterday = (licence: Licence) => harness.sql`
  update freed_activations set day = day - 1 where licence_id = ${licence.id}`

test('the activation that called home longest ago is freed, with an entry in the history', async () => {
  const licence = await given({ maxActivations: 3 })
  const grants = [await install(licence, 'a'), await install(licence, 'b'), await install(licence, 'c')]
  await harness.products.recordCallHome(callOf(grants[0]!))
  const { created } = await replacing(licence, 'd')
  expect(created).toBe(true)
  expect(await installed(licence)).toEqual(['a', 'c', 'd'])
  expect((await history(harness, licence)).slice(1)).toEqual([
    {
      type: 'activation_freed',
      from: 'active',
      to: 'active',
      actor: 'product',
      cause: grants[1]!.activationId,
    },
  ])
  const freed = harness.products.refreshActivation(callOf(grants[1]!))
  expect(await refusal(freed)).toMatchObject({ code: 'not_found' })
})

test.each([{ maxActivations: 1 }, { maxConcurrent: 1 }])(
  'five replacements a day are made with %o, also through two replicas at once; then the limit holds',
  async (limits) => {
    const licence = await given(limits)
    await install(licence, 'first')
    const outcomes = await settledAtOnce(20, (at) =>
      replacing(licence, `m-${at}`, { products: [harness.products, other][at % 2]! }),
    )
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    for (const { reason } of refused) expect(reason).toMatchObject(full)
    expect(refused).toHaveLength(15)
    expect(await installed(licence)).toHaveLength(1)
    const freed = (await history(harness, licence)).filter(({ type }) => type === 'activation_freed')
    expect(freed).toHaveLength(5)
    await yesterday(licence)
    await replacing(licence, 'today')
    expect(await installed(licence)).toEqual(['today'])
  },
)

test('the slot of a replaced activation is free at once, and does not count among the ten of a day', async () => {
  const licence = await given({ maxActivations: 1 })
  for (let machine = 0; machine < 5; machine += 1) await replacing(licence, `m-${machine}`)
  for (let machine = 0; machine < 10; machine += 1) {
    await harness.products.deactivate(callOf(await replacing(licence, 'same').then(({ grant }) => grant!)))
  }
  expect(await activate(harness.products, licence)).toMatchObject({ created: true })
})

test('slots that products freed and that are still occupied cannot be replaced', async () => {
  const licence = await given({ maxActivations: 1 })
  for (let machine = 0; machine < 11; machine += 1) {
    await harness.products.deactivate(callOf(await install(licence, `m-${machine}`)))
  }
  expect(await refusal(replacing(licence, 'next'))).toMatchObject(full)
})

test.each([{ maxActivations: 2 }, { maxConcurrent: 2 }])(
  'an activation with a file that has not ended is never replaced, and a refused replacement does not count (%o)',
  async (limits) => {
    const licence = await given(limits)
    const file = await activateOffline(harness, licence, { fingerprint: 'island', days: 1 })
    await install(licence, 'a')
    for (const next of ['b', 'c', 'd', 'e']) await replacing(licence, next)
    expect((await installed(licence)).filter((each) => each === 'island')).toEqual(['island'])
    const second = await activateOffline(harness, licence, { fingerprint: 'e', days: 366 })
    expect(await refusal(replacing(licence, 'f'))).toMatchObject(full)
    await harness.products.deactivate({ activationId: second.activationId, token: tokenOf(second) })
    expect(await refusal(replacing(licence, 'f'))).toMatchObject(full)
    await passMinutes(harness, 24 * 60 + 1, { activationIds: [file.activationId] })
    // On a floating licence the lease of the file has ended, so nothing has to be replaced.
    await replacing(licence, 'f')
    expect(await installed(licence)).toContain('f')
  },
)

test('on a floating licence the oldest of those that hold a lease is freed if leases are used up, else the oldest of all', async () => {
  const licence = await given({ maxActivations: 3, maxConcurrent: 2 })
  const idle = await install(licence, 'idle')
  await harness.products.release(callOf(idle))
  await install(licence, 'a')
  await install(licence, 'b')
  await replacing(licence, 'c')
  expect(await installed(licence)).toEqual(['b', 'c', 'idle'])
  const b = await install(licence, 'b')
  await harness.products.release(callOf(b))
  // A lease is free, but no slot.
  await replacing(licence, 'd')
  expect(await installed(licence)).toEqual(['b', 'c', 'd'])
})

test('a quota is not a limit of the licence: no activation is freed for it', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  const licence = await givenLicence(own, { planId: plan.id })
  await setQuota(harness.sql, own.accountId, 'activations', 1)
  await install(licence, 'a')
  expect(await refusal(replacing(licence, 'b'))).toMatchObject({ code: 'quota_exceeded' })
  const limited = await givenLicence(own, { planId: plan.id, maxConcurrent: 1 })
  await install(limited, 'a')
  await replacing(limited, 'b')
  await setQuota(harness.sql, own.accountId, 'activations', 0)
  expect(await refusal(replacing(limited, 'c'))).toMatchObject(full)
})

test('any other value is refused, and a refused licence stays refused', async () => {
  const licence = await given({ maxActivations: 1 })
  await install(licence, 'a')
  for (const replace of ['', 'newest', 'OLDEST']) {
    expect(await refusal(replacing(licence, 'b', { replace }))).toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/replace' }],
    })
  }
  await harness.licensing.suspendLicence(verbOn(harness, licence))
  expect(await refusal(replacing(licence, 'b'))).toMatchObject({ code: 'licence_refused' })
  expect(await installed(licence)).toEqual(['a'])
  expect((await refusal(replacing({ key: '00000-00000-00000-00000-00000' }, 'b'))).code).toBe('not_found')
})
