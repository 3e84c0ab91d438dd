import { fullTest } from '@licensing/test-support/drawn'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver, ReceivedRequest } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, afterEach, expect, test } from 'vitest'
import { firstPage, notifierOfFile } from '../../test/notifier.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { startMailbox } from '../../test/mailbox.ts'
import { expectSigned } from '../../test/signature.ts'
import { reportDisabling } from '../alerts/endpoint-alerts.ts'
import { createMailer } from '../alerts/mailer.ts'
import { createBackoff, remainingMs } from '../deliveries/backoff.ts'

const receiver = await startHttpsReceiver()
afterAll(() => receiver[Symbol.asyncDispose]())
afterEach(() => receiver.answerWith({}))
const mailbox = await startMailbox()
afterAll(() => mailbox[Symbol.asyncDispose]())
const vendor = notifierOfFile({
  alertEmail: (accountId) => Promise.resolve(`${accountId}@vendor.example`),
  sendMail: createMailer(mailbox.url, 'alerts@licensing.example'),
})

interface Fields {
  url?: string
  description?: string
  headers?: Record<string, string>
  paused?: boolean
  signature?: string
}

/** An endpoint at its own path of the receiver. */
async function given(notifier: TestNotifier = vendor()) {
  const { calls, of } = notifier
  const path = `/${newId('evt')}`
  const { id: endpointId, secret } = await notifier.register(receiver.url(path))
  const one = { ...of, endpointId }
  return {
    notifier,
    one,
    path,
    secret,
    change: (fields: Fields, by = calls) =>
      by.updateEndpoint({ ...one, fields: { plans: [], ...fields }, mask: { paths: Object.keys(fields) } }),
    arrived: (at = path) => arrivedAt(receiver, at),
    show: () => calls.getEndpoint(one),
  }
}

const arrivedAt = ({ requests }: HttpsReceiver, path: string) =>
  requests.filter((request) => request.path === path)

const idsOf = (requests: readonly ReceivedRequest[]) =>
  requests.map(({ headers }) => String(headers['webhook-id']))
const sequencesOf = (requests: readonly ReceivedRequest[]) =>
  requests.map(({ body }) => (JSON.parse(body.toString()) as { sequence: number }).sequence)

fullTest(
  'attempts in flight end at the old address, all others go to the new one, and each event arrives once',
  async () => {
    const { notifier, path, change, arrived } = await given()
    const moved = `/${newId('evt')}`
    await notifier.happen(200)
    // 32 attempts are in flight when the endpoint has answered for a while.
    await eventually(() => expect(arrived()).toHaveLength(200))
    receiver.answerWith({ delayMs: 300 })
    const events = await notifier.happen(300)
    await eventually(() => expect(arrived().length).toBeGreaterThanOrEqual(232))
    await change({ url: receiver.url(moved), headers: { 'X-Own': 'own' } })
    const changedAt = Date.now()
    receiver.answerWith({})
    await eventually(async () => expect((await notifier.deliveries({ status: 'pending' })).length).toBe(0))
    const [before, after] = [arrived(path).slice(200), arrived(moved)]
    expect(idsOf([...before, ...after]).toSorted()).toEqual(events.map(({ id }) => id).toSorted())
    expect(after.length).toBeGreaterThan(200)
    for (const { arrivedAt: at } of before) expect(at).toBeLessThan(changedAt + 1_000)
    for (const { headers } of before) expect(headers).not.toHaveProperty('x-own')
    for (const { headers } of after) expect(headers['x-own']).toBe('own')
  },
)

test('of concurrent changes of the signature one makes a secret, and all other changes are kept', async () => {
  const { notifier, change, arrived, show, secret } = await given()
  const changes = await Promise.all([
    ...Array.from({ length: 8 }, () => change({ signature: 'standard' })),
    change({ description: 'of one' }),
    change({ headers: { 'X-Of': 'another' } }),
  ])
  const secrets = changes.flatMap(({ secret: made }) => made ?? [])
  expect(secrets).toHaveLength(1)
  expect(secrets[0]).not.toBe(secret)
  const shown = { signature: 'standard', description: 'of one', headers: { 'X-Of': null } }
  expect(await show()).toMatchObject(shown)
  await notifier.happen()
  await eventually(() => expect(arrived()).toHaveLength(1))
  expect(arrived()[0]!.headers).toMatchObject({
    'x-of': 'another',
    'webhook-signature': expect.stringMatching(/^v1,/) as string,
  })
})

test('a change that changes nothing writes nothing', async () => {
  const { notifier, one, change, show } = await given()
  const generation = async () => {
    const [row] = await notifier.sql<{ generation: bigint }[]>`
      select generation from endpoints where id = ${one.endpointId}`
    return row!.generation
  }
  await change({ description: 'note' })
  const [before, shown] = [await generation(), await show()]
  await change({ description: 'note', paused: false, signature: 'default', url: shown.url })
  expect(await generation()).toBe(before)
  expect(await show()).toEqual(shown)
})

test('headers are encrypted in the database, and bound to their endpoint', async () => {
  const { notifier, one, change } = await given()
  await change({ headers: { 'X-Api-Key': 'a value of the vendor' } })
  const [row] = await notifier.sql<{ text: string; names: string[] }[]>`
    select e::text as text, header_names as names from endpoints e where id = ${one.endpointId}`
  expect(row!.names).toEqual(['X-Api-Key'])
  expect(row!.text).not.toContain('a value')
  expect(row!.text).not.toContain(Buffer.from('a value').toString('hex'))
})

fullTest(
  'a pause in the middle of a backlog stops it, and its end sends the rest in order, each once, beside an endpoint that never waits',
  async () => {
    const { notifier, one, change, arrived, show, path } = await given()
    const { calls, of, sql } = notifier
    const other = `/${newId('evt')}`
    await notifier.register(receiver.url(other))
    receiver.answerWith(({ path: at }) => (at === path ? { delayMs: 20 } : {}))
    const backlog = 300
    await notifier.happen(backlog)
    await eventually(() => expect(arrived().length).toBeGreaterThan(60))
    await change({ paused: true })
    // Attempts that were under way may end.
    const claimed = () =>
      sql`select from deliveries where endpoint_id = ${one.endpointId} and claim_id is not null`
    await eventually(async () => expect(await claimed()).toHaveLength(0), { timeoutMs: 2_000 })
    const sent = arrived().length
    expect(sent).toBeLessThan(backlog)
    await notifier.happen(5)
    await eventually(() => expect(arrivedAt(receiver, other)).toHaveLength(backlog + 5))
    expect(arrived()).toHaveLength(sent)
    // Nothing looks for its deliveries.
    const waiting = () => sql`select from waiting_endpoints where endpoint_id = ${one.endpointId}`
    await eventually(async () => expect(await waiting()).toHaveLength(0))
    expect(await show()).toMatchObject({ paused: true, status: 'enabled' })
    const { deliveries } = await calls.listDeliveries({ ...one, ...firstPage, status: 'pending' })
    for (const { nextAttemptAt, attemptCount } of deliveries) {
      expect([nextAttemptAt, attemptCount]).toEqual([undefined, 0])
    }
    await change({ paused: false })
    await eventually(() => expect(arrived()).toHaveLength(backlog + 5), { timeoutMs: 20_000 })
    const rest = sequencesOf(arrived().slice(sent))
    const inOrder = rest.toSorted((a, b) => a - b)
    // Up to 32 are in flight, so an event may arrive before others that began before it.
    rest.forEach((sequence, at) => expect(Math.abs(inOrder.indexOf(sequence) - at)).toBeLessThanOrEqual(64))
    expect(new Set(idsOf(arrived())).size).toBe(backlog + 5)
    await eventually(async () =>
      expect((await calls.listDeliveries({ ...of, ...firstPage, status: 'pending' })).deliveries).toEqual([]),
    )
  },
)

test('pauses and resumes at random, on two replicas, while events are recorded, lose and repeat nothing', async () => {
  const { notifier, change, arrived } = await given()
  await using replica = await notifier.replica()
  const both = [notifier.calls, replica.calls]
  const sent: string[] = []
  for (let round = 0; round < 12; round += 1) {
    const [, events] = await Promise.all([
      change({ paused: round % 2 === 0 }, both[round % 3 === 0 ? 0 : 1]),
      notifier.happen(20),
    ])
    sent.push(...events.map(({ id }) => id))
  }
  await change({ paused: false })
  await eventually(() => expect(arrived()).toHaveLength(sent.length))
  expect(idsOf(arrived()).toSorted()).toEqual(sent.toSorted())
})

test('a retry that comes due during a pause is made after it, with the next number', async () => {
  const { notifier, change, arrived } = await given()
  receiver.answerWith({ status: 500 })
  await notifier.happen()
  await notifier.delivery({ attemptCount: 1 })
  await change({ paused: true })
  notifier.clock.advance(48 * 3_600_000)
  await notifier.happen()
  await eventually(async () => expect(await notifier.deliveries({ status: 'pending' })).toHaveLength(2))
  expect(arrived()).toHaveLength(1)
  receiver.answerWith({})
  await change({ paused: false })
  await eventually(() => expect(arrived()).toHaveLength(3))
  const attempts = arrived().map(({ headers }) => String(headers['webhook-attempt']))
  expect(attempts.toSorted()).toEqual(['1', '1', '2'])
})

test('payloads that pass retention during a pause fail without an attempt, and the endpoint stays enabled', async () => {
  const { notifier, change, arrived, show } = await given()
  await change({ paused: true })
  await notifier.happen(3)
  await eventually(async () => expect(await notifier.deliveries()).toHaveLength(3))
  notifier.clock.advance(91 * 86_400_000)
  await change({ paused: false })
  const failed = { status: 'failed', attemptCount: 0 }
  await eventually(async () => expect(await notifier.deliveries()).toMatchObject([failed, failed, failed]))
  expect(arrived()).toEqual([])
  expect(await show()).toMatchObject({ status: 'enabled', paused: false })
  await notifier.happen()
  await eventually(() => expect(arrived()).toHaveLength(1))
})

test('an address that becomes private between the change and the attempt fails the attempt', async () => {
  const { notifier, one, change, arrived } = await given()
  await change({ paused: true, url: receiver.url('/public') })
  await notifier.happen()
  await eventually(async () => expect(await notifier.deliveries()).toHaveLength(1))
  await expect(change({ url: 'https://10.1.2.3/' })).rejects.toMatchObject({ code: 'validation_failed' })
  // As if its name resolved to another address now.
  await notifier.sql`update endpoints set url = 'https://10.1.2.3/' where id = ${one.endpointId}`
  await change({ paused: false })
  const { id: deliveryId } = await notifier.delivery({ attemptCount: 1, status: 'pending' })
  const { attempts } = await notifier.calls.getDelivery({ ...notifier.of, deliveryId })
  expect(attempts).toMatchObject([{ error: 'blocked: the host does not resolve to public addresses only' }])
  expect([...arrived(), ...arrived('/public')]).toEqual([])
})

test('a replay that begins during a rotation with overlap is signed with both secrets, and after the overlap with one', async () => {
  const { notifier, one, secret, arrived } = await given()
  const { calls, of, clock } = notifier
  await notifier.happen()
  const { id: deliveryId } = await notifier.delivery({ status: 'delivered' })
  receiver.answerWith({ delayMs: 200 })
  await calls.replayDelivery({ ...of, deliveryId })
  await eventually(() => expect(arrived()).toHaveLength(2))
  const [rotated] = await Promise.all([
    calls.rotateSecret({ ...one, overlapHours: 2 }),
    calls.replayDelivery({ ...of, deliveryId }),
  ])
  await notifier.delivery({ attemptCount: 3 })
  receiver.answerWith({})
  await calls.replayDelivery({ ...of, deliveryId })
  await eventually(() => expect(arrived()).toHaveLength(4))
  const [, before, , during] = arrived()
  expectSigned(before!, secret)
  const count = ({ headers }: ReceivedRequest) =>
    [...String(headers['webhook-signature']).matchAll(/v1=/g)].length
  expect(count(during!)).toBe(2)
  clock.advance(2 * 3_600_000)
  await calls.replayDelivery({ ...of, deliveryId })
  await eventually(() => expect(arrived()).toHaveLength(5))
  expectSigned(arrived()[4]!, rotated.secret)
})

const hour = 3_600_000

test('the vendor is warned once before the endpoint is disabled, also by two replicas at once, and again when it fails again', async () => {
  const { notifier, one, path, show } = await given()
  const { clock, sql } = notifier
  const warnings = async () => {
    const rows = await sql<{ text: string }[]>`
      select text from alerts where kind = 'endpoint_disabling' and endpoint_id = ${one.endpointId}`
    return rows.map(({ text }) => text)
  }
  const leftMs = async () => timestampDate((await show()).disablesAt!).getTime() - clock.now().getTime()
  const nextAttempt = async () => {
    const [{ nextAttemptAt, attemptCount } = {}] = await notifier.deliveries()
    if (nextAttemptAt) clock.advance(timestampDate(nextAttemptAt).getTime() - clock.now().getTime())
    return notifier.delivery({ attemptCount: attemptCount! + 1 })
  }
  /** Fails the newest event ten times. About twelve hours are left then. */
  const failTenTimes = async (known: number) => {
    receiver.answerWith({ status: 500 })
    await notifier.happen()
    await notifier.delivery({ attemptCount: 1 })
    expect(Math.abs((await leftMs()) / hour - 44.6)).toBeLessThan(2)
    for (let made = 1; made < 10; made += 1) {
      expect(await warnings()).toHaveLength(known)
      await nextAttempt()
      // Five attempts are left after the seventh, six hours apart.
      if (made + 1 === 7) expect(Math.abs((await leftMs()) / hour - 30)).toBeLessThan(2)
    }
  }
  const report = (now: Date) =>
    transaction(sql, (tx) => reportDisabling(tx, { now, remainingMs: remainingMs(createBackoff()) }))

  expect((await show()).disablesAt).toBeUndefined()
  await failTenTimes(0)
  const inAnHour = new Date(clock.now().getTime() + hour)
  await Promise.all([report(inAnHour), report(inAnHour)])
  const [text, ...others] = await warnings()
  expect(others).toEqual([])
  expect(text).toContain(timestampDate((await show()).disablesAt!).toISOString())
  expect(text).toContain(`10 of 12 attempts`)
  expect(text).toContain(receiver.url(path))
  const mails = () =>
    mailbox.mails.filter(
      (mail) =>
        mail.to.includes(`${notifier.of.accountId}@vendor.example`) && mail.text.includes('is ever sent'),
    )
  await eventually(() => expect(mails()).toHaveLength(1))
  const [mail] = mails()
  expect(mail!.subject).toContain('Webhook endpoint close to its end')
  const disablesAt = timestampDate((await show()).disablesAt!).toISOString()
  for (const said of [one.endpointId, receiver.url(path), disablesAt, 'Repair the endpoint', 'pause it']) {
    expect(mail!.text).toContain(said)
  }
  await nextAttempt()
  await report(clock.now())
  expect(await warnings()).toHaveLength(1)

  receiver.answerWith({})
  await nextAttempt()
  expect((await show()).disablesAt).toBeUndefined()
  // The first alert is in a mail or the log, so the second does not replace it.
  await eventually(async () =>
    expect(
      await sql`select from alerts where completed_at is null and endpoint_id = ${one.endpointId}`,
    ).toEqual([]),
  )
  await failTenTimes(1)
  await report(new Date(clock.now().getTime() + hour))
  expect(await warnings()).toHaveLength(2)
  await eventually(() => expect(mails()).toHaveLength(2))
})
