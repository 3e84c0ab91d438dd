import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { hash } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenTenant, startTestCatalog } from '../../test/catalog.ts'
import type { TestCatalog } from '../../test/catalog.ts'
import { updateAlertEmail } from './account-queries.ts'
import type { ConfirmationSender } from './alert-email.ts'

interface Sent {
  accountId: string
  address: string
  token: string
}

/** The RPC of the notifier that catalog calls. */
function notifierStub() {
  const sent: Sent[] = []
  type Answer = { retryAfterSeconds: number }
  let answer: (request: Sent) => Answer | Promise<Answer> = () => ({ retryAfterSeconds: 0 })
  const notifier = {
    async sendConfirmation(request: Sent) {
      const { retryAfterSeconds } = await answer(request)
      if (retryAfterSeconds === 0) sent.push(request)
      return { $typeName: 'notifier.v1.SendConfirmationResponse', retryAfterSeconds }
    },
  } satisfies ConfirmationSender
  return { notifier, sent, answerWith: (given: typeof answer) => (answer = given) }
}

const hashOf = (token: string) => ({ tokenHash: hash('sha256', token, 'buffer') })

/** An account whose alerts go to an address that needs no confirmation. */
async function givenAccount(catalog: TestCatalog, address: string | null = 'old@vendor.example') {
  const { accountId } = await givenTenant(catalog)
  await updateAlertEmail(catalog.sql, accountId, address)
  return accountId
}

const state = async ({ calls }: TestCatalog, accountId: string) => {
  const { alertEmail, alertEmailConfirmed, confirmedAlertEmail } = await calls.getAccount({ accountId })
  return [alertEmail, alertEmailConfirmed, confirmedAlertEmail]
}

const invalid = { code: 'not_found', message: expect.stringContaining('this link is not valid') }

test('alerts go to the previous address until the link in the mail is used; a link can be used once', async () => {
  const { notifier, sent } = notifierStub()
  await using catalog = await startTestCatalog(notifier)
  const { calls, sql } = catalog
  const accountId = await givenAccount(catalog)
  expect(await state(catalog, accountId)).toEqual(['old@vendor.example', true, 'old@vendor.example'])
  expect(await calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })).toMatchObject({
    alertEmail: 'new@vendor.example',
    alertEmailConfirmed: false,
    confirmedAlertEmail: 'old@vendor.example',
  })
  await eventually(() => expect(sent).toHaveLength(1))
  const [{ token, ...mail }] = sent as [Sent]
  expect(mail).toMatchObject({ accountId, address: 'new@vendor.example' })
  expect(token).toMatch(/^[\w-]{43}$/)
  // The token is not stored.
  const stored = await sql<
    { row: string }[]
  >`select row_to_json(c)::text as row from alert_email_confirmations c`
  expect(stored).toHaveLength(1)
  expect(stored[0]!.row).not.toContain(token)

  const about = { accountId, alertEmail: 'new@vendor.example' }
  // A scanner that follows the link changes nothing.
  expect(await calls.findAlertEmailConfirmation(hashOf(token))).toMatchObject(about)
  expect(await calls.findAlertEmailConfirmation(hashOf(token))).toMatchObject(about)
  expect(await state(catalog, accountId)).toEqual(['new@vendor.example', false, 'old@vendor.example'])

  const clicks = await Promise.allSettled(
    Array.from({ length: 6 }, (_, i) => catalog.replicas[i % 2]!.confirmAlertEmail(hashOf(token))),
  )
  expect(clicks.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(await state(catalog, accountId)).toEqual(['new@vendor.example', true, 'new@vendor.example'])
  await expect(calls.confirmAlertEmail(hashOf(token))).rejects.toMatchObject(invalid)
  await expect(calls.findAlertEmailConfirmation(hashOf(token))).rejects.toMatchObject(invalid)
  await expect(calls.confirmAlertEmail(hashOf('x'))).rejects.toMatchObject(invalid)
  expect(sent).toHaveLength(1)
})

test('if an address is changed again before it is confirmed, its link is no longer valid', async () => {
  const { notifier, sent, answerWith } = notifierStub()
  await using catalog = await startTestCatalog(notifier)
  const { calls } = catalog
  const accountId = await givenAccount(catalog)
  await calls.updateAccount({ accountId, alertEmail: 'first@vendor.example' })
  await eventually(() => expect(sent).toHaveLength(1))

  // Both replicas wait for the mail server, so the mail to the second address is not created yet.
  const { promise: answered, resolve: answerAll } = Promise.withResolvers<void>()
  // Answers even if the test fails, because a replica does not stop while it waits.
  using release = new DisposableStack()
  release.defer(answerAll)
  let waiting = 0
  answerWith(async () => {
    waiting += 1
    await answered
    return { retryAfterSeconds: 0 }
  })
  for (const replica of catalog.replicas) {
    await replica.updateAccount({
      accountId: await givenAccount(catalog),
      alertEmail: 'other@vendor.example',
    })
  }
  await eventually(() => expect(waiting).toBe(2))
  await calls.updateAccount({ accountId, alertEmail: 'second@vendor.example' })
  await expect(calls.confirmAlertEmail(hashOf(sent[0]!.token))).rejects.toMatchObject(invalid)
  answerAll()

  const toSecond = () => sent.find(({ address }) => address === 'second@vendor.example')
  await eventually(() => expect(toSecond()).toBeDefined())
  await expect(calls.confirmAlertEmail(hashOf(sent[0]!.token))).rejects.toMatchObject(invalid)
  expect(await state(catalog, accountId)).toEqual(['second@vendor.example', false, 'old@vendor.example'])
  await calls.confirmAlertEmail(hashOf(toSecond()!.token))
  expect(await state(catalog, accountId)).toEqual(['second@vendor.example', true, 'second@vendor.example'])
})

test('removing the address, or setting the confirmed one, needs no confirmation and cancels a pending one', async () => {
  const { notifier, sent } = notifierStub()
  await using catalog = await startTestCatalog(notifier)
  const { calls } = catalog
  for (const [alertEmail, expected] of [
    ['old@vendor.example', ['old@vendor.example', true, 'old@vendor.example']],
    ['', [undefined, false, undefined]],
  ] as const) {
    const accountId = await givenAccount(catalog)
    await calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })
    await eventually(() => expect(sent.at(-1)?.accountId).toBe(accountId))
    await calls.updateAccount({ accountId, alertEmail })
    expect(await state(catalog, accountId)).toEqual(expected)
    await expect(calls.confirmAlertEmail(hashOf(sent.at(-1)!.token))).rejects.toMatchObject(invalid)
    expect(await state(catalog, accountId)).toEqual(expected)
  }
  expect(sent).toHaveLength(2)
})

test('a link is valid for seven days; setting the same address again sends another mail only after ten minutes', async () => {
  const { notifier, sent } = notifierStub()
  await using catalog = await startTestCatalog(notifier)
  const { calls, sql } = catalog
  const accountId = await givenAccount(catalog, null)
  const set = () => calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })
  await set()
  await eventually(async () =>
    expect(await sql`select 1 from alert_email_confirmations where mailed_at is not null`).toHaveLength(1),
  )
  await set()
  await calls.updateAccount({ accountId, name: 'Renamed' })
  // Neither call requested a mail.
  expect(await sql`select 1 from alert_email_confirmations where due_at is not null`).toHaveLength(0)
  const [left] = await sql<{ days: number }[]>`
    select (extract(epoch from expires_at - now()) / 86400)::float8 as days from alert_email_confirmations`
  expect(left!.days).toBeGreaterThan(6.9)
  expect(left!.days).toBeLessThanOrEqual(7)

  await sql`update alert_email_confirmations set expires_at = now() - interval '1 second'`
  await expect(calls.findAlertEmailConfirmation(hashOf(sent[0]!.token))).rejects.toMatchObject(invalid)
  await expect(calls.confirmAlertEmail(hashOf(sent[0]!.token))).rejects.toMatchObject(invalid)
  expect(await state(catalog, accountId)).toEqual(['new@vendor.example', false, undefined])

  await sql`update alert_email_confirmations set mailed_at = now() - interval '11 minutes'`
  await set()
  await eventually(() => expect(sent).toHaveLength(2))
  await calls.confirmAlertEmail(hashOf(sent[1]!.token))
  expect(await state(catalog, accountId)).toEqual(['new@vendor.example', true, 'new@vendor.example'])
})

test('several replicas send the mail of each account once', async () => {
  const { notifier, sent, answerWith } = notifierStub()
  // A slow mail server, so that the other replica looks for mails at the same time.
  answerWith(() => new Promise((resolve) => setTimeout(resolve, 100, { retryAfterSeconds: 0 })))
  await using catalog = await startTestCatalog(notifier)
  const accounts: string[] = []
  for (let i = 0; i < 20; i += 1) accounts.push(await givenAccount(catalog))
  await Promise.all(
    accounts.map((accountId, i) =>
      catalog.replicas[i % 2]!.updateAccount({ accountId, alertEmail: 'new@vendor.example' }),
    ),
  )
  await eventually(async () =>
    expect(
      await catalog.sql`select 1 from alert_email_confirmations where mailed_at is not null`,
    ).toHaveLength(20),
  )
  expect(sent.map(({ accountId }) => accountId).toSorted()).toEqual(accounts.toSorted())
})

test('if two addresses are set one after another, the newest gets a mail when the notifier accepts one again', async () => {
  const { notifier, sent, answerWith } = notifierStub()
  let left = 2
  answerWith(() => ({ retryAfterSeconds: (left -= 1) >= 0 ? 0 : 3_000 }))
  await using catalog = await startTestCatalog(notifier)
  const { calls, sql } = catalog
  const accountId = await givenAccount(catalog)
  for (let i = 0; i < 40; i += 1) {
    await calls.updateAccount({ accountId, alertEmail: `${i % 2 === 0 ? 'one' : 'two'}@example.com` })
  }
  const waits = () =>
    sql`select 1 from alert_email_confirmations where due_at > now() + interval '2900 seconds'`
  await eventually(async () => expect(await waits()).toHaveLength(1))
  expect(sent.length).toBeLessThanOrEqual(2)
  expect(await state(catalog, accountId)).toEqual(['two@example.com', false, 'old@vendor.example'])
  left = 1
  const before = sent.length
  await sql`update alert_email_confirmations set due_at = now()`
  await eventually(() => expect(sent).toHaveLength(before + 1))
  expect(sent.at(-1)!.address).toBe('two@example.com')
})

test('a mail that could not be sent is tried again with another token, a limited number of times', async () => {
  const { notifier, sent, answerWith } = notifierStub()
  let tries = 0
  answerWith(() => {
    tries += 1
    if (tries < 3) throw new ServiceError('unavailable', 'the mail server did not accept the mail')
    return { retryAfterSeconds: 0 }
  })
  await using catalog = await startTestCatalog(notifier)
  const { calls, sql } = catalog
  const accountId = await givenAccount(catalog)
  await calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })
  await eventually(
    async () => {
      await sql`update alert_email_confirmations set due_at = now() where due_at is not null`
      expect(sent).toHaveLength(1)
    },
    { intervalMs: 500 },
  )
  await calls.confirmAlertEmail(hashOf(sent[0]!.token))

  tries = -1_000
  await calls.updateAccount({ accountId, alertEmail: 'other@vendor.example' })
  await sql`update alert_email_confirmations set tries = 29, due_at = now()`
  await eventually(async () =>
    expect(await sql`select 1 from alert_email_confirmations where due_at is null`).toHaveLength(1),
  )
  expect(sent).toHaveLength(1)
})

test('setting an address while its link is used leaves a consistent state', async () => {
  const { notifier, sent } = notifierStub()
  await using catalog = await startTestCatalog(notifier)
  const { calls } = catalog
  for (let i = 0; i < 10; i += 1) {
    const accountId = await givenAccount(catalog)
    await calls.updateAccount({ accountId, alertEmail: 'first@vendor.example' })
    await eventually(() => expect(sent.at(-1)?.accountId).toBe(accountId))
    const [confirmed] = await Promise.allSettled([
      catalog.replicas[1].confirmAlertEmail(hashOf(sent.at(-1)!.token)),
      calls.updateAccount({ accountId, alertEmail: '' }),
    ])
    expect(await state(catalog, accountId), confirmed.status).toEqual([undefined, false, undefined])
  }
})

test.each(['a@b,c@d', '<a@b>', 'a@b>', 'a;b@c', 'a@b\r\nBcc:c@d', 'a\u0001@b', 'a"b@c'])(
  '%j is refused as an address',
  async (alertEmail) => {
    await using catalog = await startTestCatalog()
    const { accountId } = await givenTenant(catalog)
    await expect(catalog.calls.updateAccount({ accountId, alertEmail })).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/alert_email' }],
    })
  },
)
