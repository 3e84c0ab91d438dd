import { setQuota } from '@licensing/quotas/quota-queries'
import { expect, test } from 'vitest'
import { givenLicence, givenPlan, raceRounds, detailOf, atOnce, settledAtOnce } from '../../test/makers.ts'
import { startHarness, forFile, newVendor } from '../../test/harness.ts'
import { activate, callOf } from '../../test/products.ts'

const harness = await forFile(startHarness)
const replicas = [harness, await harness.replica()].map(({ products }) => products)

const rivals = 50

const replicaFor = (rival: number) => replicas[rival % replicas.length]!

/** The number of requests that were granted. Checks that all others got the same answer. */
function granted(outcomes: PromiseSettledResult<unknown>[]): number {
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  for (const { reason } of refused) expect(reason).toMatchObject({ code: 'limit_reached' })
  return outcomes.length - refused.length
}

async function placesTaken(licence: { id: string }): Promise<number> {
  const detail = await detailOf(harness, licence)
  return detail.activations.length
}

test(`if ${rivals} installations activate at once, exactly max_activations succeed`, async () => {
  const plan = await givenPlan(harness)
  for (let round = 0; round < raceRounds; round += 1) {
    const maxActivations = 1 + (round % 7)
    const licence = await givenLicence(harness, { planId: plan.id, maxActivations })
    const outcomes = await settledAtOnce(rivals, (rival) =>
      activate(replicaFor(rival), licence, { fingerprint: `machine-${rival}` }),
    )
    expect(granted(outcomes)).toBe(maxActivations)
    expect(await placesTaken(licence)).toBe(maxActivations)
  }
}, 600_000)

test(`${rivals} concurrent requests with one fingerprint create one activation`, async () => {
  const plan = await givenPlan(harness)
  for (let round = 0; round < raceRounds; round += 1) {
    const licence = await givenLicence(harness, { planId: plan.id, maxActivations: 1 })
    const answers = await atOnce(rivals, (rival) =>
      activate(replicaFor(rival), licence, { fingerprint: 'one' }),
    )
    expect(new Set(answers.map((answer) => answer.grant!.activationId)).size).toBe(1)
    expect(answers.filter((answer) => answer.created)).toHaveLength(1)
    expect(await placesTaken(licence)).toBe(1)
  }
}, 600_000)

test('while activations are made and freed, there are never more than max_activations', async () => {
  const maxActivations = 3
  const licence = await givenLicence(harness, { maxActivations })
  let max = 0
  const done = new AbortController()
  const watch = async () => {
    while (!done.signal.aborted) max = Math.max(max, await placesTaken(licence))
  }
  const refused = new Set<string>()
  const comeAndGo = async (rival: number) => {
    for (let visit = 0; visit < raceRounds; visit += 1) {
      const asked = activate(replicaFor(rival), licence, { fingerprint: `m-${rival}` })
      const answer = await asked.catch((error: { code: string }) => refused.add(error.code))
      if ('grant' in answer) await replicaFor(rival + 1).deactivate(callOf(answer.grant!))
    }
  }
  const watched = watch()
  await atOnce(10, (rival) => comeAndGo(rival))
  done.abort()
  await watched
  expect([...refused]).toEqual(['limit_reached'])
  expect(max).toBeGreaterThan(0)
  expect(max).toBeLessThanOrEqual(maxActivations)
  // Activations that were deactivated after the first ten keep their slots.
  const left = await harness.sql`
    select from activations where licence_id = ${licence.id} and held_until is null`
  expect(left).toHaveLength(0)
}, 600_000)

test('if 50 installations, online and offline, compete for the last 3 activations of the quota, 3 succeed', async () => {
  const own = newVendor(harness)
  const { accountId, applicationId } = own
  const plan = await givenPlan(own)
  const licence = await givenLicence(own, { planId: plan.id })
  await setQuota(harness.sql, accountId, 'activations', 3)
  const ask = (rival: number) => {
    const installed = { fingerprint: `m-${rival}`, host: 'm.example.com', productVersion: '1' }
    if (rival % 3 > 0) return activate(replicaFor(rival), licence, installed)
    const request = { accountId, applicationId, licenceKey: licence.key, days: 9, ...installed }
    return replicaFor(rival).activateOffline(request)
  }
  const outcomes = await settledAtOnce<unknown>(rivals, ask)
  const assigned = outcomes.flatMap(({ status }, rival) => (status === 'fulfilled' ? [rival] : []))
  expect(assigned).toHaveLength(3)
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') {
      expect(outcome.reason).toMatchObject({ code: 'quota_exceeded', members: { limit: 3 } })
    }
  }
  const [row] = await harness.sql<{ count: number }[]>`
    select count(*)::int as count from activations where licence_id = ${licence.id}`
  expect(row).toEqual({ count: 3 })
  // An installation that has its slot keeps it, and another licence has its own slots.
  for (const rival of assigned) expect(await ask(rival)).toMatchObject({ created: false })
  await activate(harness.products, await givenLicence(own, { planId: plan.id }))
  await setQuota(harness.sql, accountId, 'activations', 4)
  expect(await ask(rivals)).toMatchObject({ created: true })
})

test('a licence has at most 10,000 activations, even if it allows more; a refusal names its own limit first', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  const full = async (maxActivations?: number) => {
    const licence = await givenLicence(own, {
      planId: plan.id,
      ...(maxActivations !== undefined && { maxActivations }),
    })
    await harness.sql`
      insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version)
      select ${licence.id} || n, ${own.accountId}, ${own.applicationId}, ${licence.id}, n, 'h', '1'
      from generate_series(1, 9999) as n`
    await activate(harness.products, licence)
    return activate(harness.products, licence)
  }
  const overQuota = { code: 'quota_exceeded', members: { limit: 10_000 } }
  await expect(full()).rejects.toMatchObject(overQuota)
  await expect(full(10_001)).rejects.toMatchObject(overQuota)
  await expect(full(10_000)).rejects.toMatchObject({ code: 'limit_reached' })
})
