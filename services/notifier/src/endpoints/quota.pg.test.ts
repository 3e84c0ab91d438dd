import { connectTo } from '@licensing/grpc/client'
import { newId } from '@licensing/database/ids'
import { keyed } from '@licensing/changes/testing/keyed'
import { QuotaService } from '@licensing/proto/quota-service'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TestNotifier } from '../../test/notifier.ts'
import { startTestNotifier } from '../../test/notifier.ts'

const running = new AsyncDisposableStack()
let url: string
let notifier: TestNotifier
let replicas: Pick<TestNotifier, 'calls'>[]
beforeAll(async () => {
  url = running.use(await startHttpsReceiver()).url()
  notifier = running.use(await startTestNotifier())
  replicas = [notifier, running.use(await notifier.replica())]
})
afterAll(() => running.disposeAsync())

const givenVendor = () => ({ accountId: newId('acct'), applicationId: newId('app') })

type Vendor = ReturnType<typeof givenVendor>

async function setQuota(request: { accountId: string; quota: string; max: bigint }): Promise<void> {
  const channel = connectTo(QuotaService, notifier.address)
  await channel.calls.setQuota(request).finally(() => channel.close())
}

const allow = ({ accountId }: Vendor, max: number) =>
  setQuota({ accountId, quota: 'webhook_endpoints', max: BigInt(max) })

const register = (vendor: Vendor, at = 0) =>
  replicas[at % 2]!.calls.createEndpoint({ ...vendor, fields: { url, subscribedEvents: '*' } })

test('if the quota admits 3 more endpoints, 3 of 20 concurrent registrations on two replicas succeed', async () => {
  const vendor = givenVendor()
  await allow(vendor, 3)
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, (_, at) => register(vendor, at)))
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') {
      expect(outcome.reason).toMatchObject({ code: 'quota_exceeded', members: { limit: 3 } })
    }
  }
  expect(
    await notifier.sql`select 1 from endpoints where application_id = ${vendor.applicationId}`,
  ).toHaveLength(3)
  // Endpoints of other applications and accounts are not counted.
  await register({ ...vendor, applicationId: newId('app') })
  await register(givenVendor())
})

test('an application may have 50 enabled endpoints, and a disabled one does not count', async () => {
  const vendor = givenVendor()
  const made = await Promise.all(Array.from({ length: 50 }, (_, at) => register(vendor, at)))
  await expect(register(vendor)).rejects.toMatchObject({ code: 'quota_exceeded', members: { limit: 50 } })
  await notifier.calls.deleteEndpoint({ ...vendor, endpointId: made[0]!.endpoint!.id })
  await register(vendor)
  await expect(register(vendor, 1)).rejects.toMatchObject({ code: 'quota_exceeded' })
  await allow(vendor, 51)
  await register(vendor, 1)
})

test('a repetition of the registration that used up the quota gets the same response', async () => {
  const vendor = givenVendor()
  await allow(vendor, 1)
  const asked = await Promise.all(
    Array.from({ length: 10 }, (_, at) => keyed('/endpoints', () => register(vendor, at), { key: 'one' })),
  )
  expect(new Set(asked.map(({ value }) => value.endpoint!.id)).size).toBe(1)
  await expect(keyed('/endpoints', () => register(vendor), { key: 'two' })).rejects.toMatchObject({
    code: 'quota_exceeded',
  })
  expect(await keyed('/endpoints', () => register(vendor), { key: 'one' })).toMatchObject({ replayed: true })
})

test.each([
  { quota: 'plans', max: 1n },
  { quota: 'webhook_endpoints', max: -1n },
  { quota: 'webhook_endpoints', max: 10_001n },
])(
  'a quota of another service, and a number that is out of bounds, is refused: $quota $max',
  async (wrong) => {
    const { accountId } = givenVendor()
    await expect(setQuota({ accountId, ...wrong })).rejects.toMatchObject({ code: 'validation_failed' })
  },
)
