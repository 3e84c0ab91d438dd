import { fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenStudio } from './section-14.ts'
import type { Studio } from './section-14.ts'
import { givenMarket } from './shop.ts'
import { dayMs, expectStatus, inMs } from './vendor.ts'

const market = await givenMarket()

const within = { timeoutMs: 70_000 }
const notices = (studio: Studio, { id }: { id: string }) => studio.heard('licence.expiring', id)
const setDays = async (studio: Studio, days: number) =>
  expectStatus(await studio.api.patch(studio.app, { body: { expiring_notice_days: days } }), 200)

test('an application shows its name and notice, and both can be changed', async () => {
  const { api, app } = await givenStudio(market)
  expect((await api.get(app)).body).toMatchObject({ name: 'Studio', expiring_notice_days: 14 })
  const changed = await api.patch(app, { body: { name: 'Atelier', expiring_notice_days: 0 } })
  expect(changed).toMatchObject({ status: 200, body: { name: 'Atelier', expiring_notice_days: 0 } })
  expect((await api.get(app)).body).toEqual(changed.body)
  expect((await api.patch(app, { body: {} })).body).toEqual(changed.body)
})

// The notices are sent by a sweep, so the tests wait for it at the same time.
test.concurrent(
  'a licence gets one notice for each expiry date, and none for a date that was set within the notice',
  async () => {
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
    const { id, expires_on } = soon
    expect(notices(studio, soon)[0]!.data.object).toEqual({ licence_id: id, status: 'active', expires_on })
    expect(notices(studio, suspended)[0]!.data.object).toMatchObject({ status: 'suspended' })
    await studio.patch(soon.id, { expires_on: inMs(14 * dayMs + 2_000) })
    await eventually(() => expect(notices(studio, soon)).toHaveLength(2), within)
    expect(notices(studio, near)).toEqual([])
    expect(notices(studio, revoked)).toEqual([])
  },
)

fullTest.concurrent(
  '0 turns the notice off, and a higher number sends notices for the licences within it',
  async () => {
    const studio = await givenStudio(market)
    const { id: planId } = await studio.plan()
    await setDays(studio, 0)
    const licence = await studio.issue(planId, { expires_on: inMs(5 * dayMs) })
    const later = await studio.issue(planId, { expires_on: inMs(60 * dayMs) })
    await studio.settled()
    expect(notices(studio, licence)).toEqual([])
    await setDays(studio, 30)
    await eventually(() => expect(notices(studio, licence)).toHaveLength(1), within)
    expect(notices(studio, later)).toEqual([])
    await setDays(studio, 90)
    await eventually(() => expect(notices(studio, later)).toHaveLength(1), within)
    expect(notices(studio, licence)).toHaveLength(1)
  },
)

fullTest.concurrent(
  'a subscription that renews gets no notice, and gets one after it is cancelled at the end of its period',
  async () => {
    const studio = await givenStudio(market)
    const plan = await studio.sells({ mode: 'subscription', amount: 1_000 })
    const { licence, subscription } = await studio.buy(plan.id)
    await setDays(studio, 90)
    const other = await studio.issue((await studio.plan()).id, { expires_on: inMs(90 * dayMs + 2_000) })
    await eventually(() => expect(notices(studio, other)).toHaveLength(1), within)
    expect(notices(studio, licence)).toEqual([])
    await market.atProcessor('cancel', { subscription, when: 'period_end' })
    await eventually(() => expect(notices(studio, licence)).toHaveLength(1), within)
  },
)
