import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dayMs, expectStatus, givenStudio, inMs } from './section-14.ts'
import type { Studio } from './section-14.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'

let market: Market
beforeAll(async () => {
  market = await startMarket()
})
afterAll(() => market[Symbol.asyncDispose]())

const within = { timeoutMs: 70_000 }
const notices = (studio: Studio, { id }: { id: string }) => studio.heard('licence.expiring', id)
const setDays = (studio: Studio, days: number) =>
  studio.api.patch(studio.app, { body: { expiring_notice_days: days } })

test('an application shows its name and notice, and both can be changed', async () => {
  const { api, app } = await givenStudio(market)
  expect((await api.get(app)).body).toMatchObject({ name: 'Studio', expiring_notice_days: 14 })
  const changed = await api.patch(app, { body: { name: 'Atelier', expiring_notice_days: 0 } })
  expectStatus(changed, 200)
  expect(changed.body).toMatchObject({ name: 'Atelier', expiring_notice_days: 0 })
  expect((await api.get(app)).body).toEqual(changed.body)
  expect((await api.patch(app, { body: {} })).body).toEqual(changed.body)
})

test('a licence gets one notice for each expiry date, and none for a date that was set within the notice', async () => {
  const studio = await givenStudio(market)
  const { id: planId } = await studio.plan()
  const soon = await studio.issue(planId, { expires_on: inMs(14 * dayMs + 2_000) })
  const near = await studio.issue(planId, { expires_on: inMs(13 * dayMs) })
  const suspended = await studio.issue(planId, { expires_on: inMs(14 * dayMs + 2_000) })
  const revoked = await studio.issue(planId, { expires_on: inMs(14 * dayMs + 2_000) })
  await studio.verb('suspend', suspended.id)
  await studio.verb('revoke', revoked.id)
  await eventually(() => {
    expect(notices(studio, soon)).toHaveLength(1)
    expect(notices(studio, suspended)).toHaveLength(1)
  }, within)
  expect(notices(studio, soon)[0]!.data.object).toEqual({
    licence_id: soon.id,
    status: 'active',
    expires_on: soon.expires_on,
  })
  expect(notices(studio, suspended)[0]!.data.object).toMatchObject({ status: 'suspended' })
  // After the date was changed, another notice is sent.
  await studio.patch(soon.id, { expires_on: inMs(14 * dayMs + 2_000) })
  await eventually(() => expect(notices(studio, soon)).toHaveLength(2), within)
  expect(notices(studio, near)).toEqual([])
  expect(notices(studio, revoked)).toEqual([])
}, 180_000)

test('0 turns the notice off, and a higher number sends notices for the licences within it', async () => {
  const studio = await givenStudio(market)
  const { id: planId } = await studio.plan()
  expectStatus(await setDays(studio, 0), 200)
  const licence = await studio.issue(planId, { expires_on: inMs(5 * dayMs) })
  const later = await studio.issue(planId, { expires_on: inMs(60 * dayMs) })
  await studio.settled()
  expect(notices(studio, licence)).toEqual([])
  expectStatus(await setDays(studio, 30), 200)
  await eventually(() => expect(notices(studio, licence)).toHaveLength(1), within)
  expect(notices(studio, later)).toEqual([])
  expectStatus(await setDays(studio, 90), 200)
  await eventually(() => expect(notices(studio, later)).toHaveLength(1), within)
  expect(notices(studio, licence)).toHaveLength(1)
}, 240_000)

test('a subscription that renews gets no notice, and gets one after it is cancelled at the end of its period', async () => {
  const studio = await givenStudio(market)
  const { sells, checkout, reaches, licencesOf } = studio
  const plan = await sells({ mode: 'subscription', amount: 1_000 })
  const opened = await checkout(plan.id, 'subscriber')
  const { subscription } = await market.atProcessor<{ subscription: string }>('pay', {
    session: opened.remote,
  })
  await reaches(opened.id, 'provisioned')
  const [licence] = await licencesOf('subscriber')
  expectStatus(await setDays(studio, 90), 200)
  const other = await studio.issue((await studio.plan()).id, { expires_on: inMs(90 * dayMs + 2_000) })
  await eventually(() => expect(notices(studio, other)).toHaveLength(1), within)
  expect(notices(studio, licence!)).toEqual([])
  await market.atProcessor('cancel', { subscription, when: 'period_end' })
  await eventually(() => expect(notices(studio, licence!)).toHaveLength(1), within)
}, 240_000)
