import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { hash } from 'node:crypto'
import { expect, test } from 'vitest'
import { catalogOfFile, entriesOf, givenTenant } from '../../test/catalog.ts'
import { updateAlertEmail } from './account-queries.ts'

const catalog = await catalogOfFile()
const { calls, notifier, replicas, sql } = catalog

const hashOf = (token: string) => ({ tokenHash: hash('sha256', token, 'buffer') })

/** An account whose alerts go to an address that needs no confirmation. */
async function givenAccount(address: string | null = 'old@vendor.example') {
  const { accountId } = await givenTenant(catalog)
  await updateAlertEmail(sql, accountId, address)
  return accountId
}

const state = async (accountId: string) => {
  const { alertEmail, alertEmailConfirmed, confirmedAlertEmail } = await calls.getAccount({ accountId })
  return [alertEmail, alertEmailConfirmed, confirmedAlertEmail]
}

interface ConfirmationRow {
  text: string
  is_due: boolean
  is_mailed: boolean
  pause_seconds: number
  days_left: number
}

async function confirmationOf(accountId: string): Promise<ConfirmationRow | undefined> {
  const [row] = await sql<ConfirmationRow[]>`
    select row_to_json(c)::text as text, due_at is not null as is_due, mailed_at is not null as is_mailed,
      extract(epoch from due_at - now())::float8 as pause_seconds,
      (extract(epoch from expires_at - now()) / 86400)::float8 as days_left
    from alert_email_confirmations as c where account_id = ${accountId}`
  return row
}

const invalid = { code: 'not_found', message: expect.stringContaining('this link is not valid') }

test('alerts go to the previous address until the link in the mail is used; a link can be used once', async () => {
  const accountId = await givenAccount()
  expect(await state(accountId)).toEqual(['old@vendor.example', true, 'old@vendor.example'])
  expect(await calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })).toMatchObject({
    alertEmail: 'new@vendor.example',
    alertEmailConfirmed: false,
    confirmedAlertEmail: 'old@vendor.example',
  })
  await eventually(() => expect(notifier.sentTo(accountId)).toHaveLength(1))
  const { token, address } = notifier.sentTo(accountId)[0]!
  expect(address).toBe('new@vendor.example')
  expect(token).toMatch(/^[\w-]{43}$/)
  // The token is not stored.
  expect((await confirmationOf(accountId))!.text).not.toContain(token)

  const about = { accountId, alertEmail: 'new@vendor.example' }
  // A scanner that follows the link changes nothing.
  expect(await calls.findAlertEmailConfirmation(hashOf(token))).toMatchObject(about)
  expect(await calls.findAlertEmailConfirmation(hashOf(token))).toMatchObject(about)
  expect(await state(accountId)).toEqual(['new@vendor.example', false, 'old@vendor.example'])

  const clicks = await Promise.allSettled(
    Array.from({ length: 6 }, (_, i) => replicas[i % 2]!.confirmAlertEmail(hashOf(token))),
  )
  expect(clicks.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(await state(accountId)).toEqual(['new@vendor.example', true, 'new@vendor.example'])
  await expect(calls.confirmAlertEmail(hashOf(token))).rejects.toMatchObject(invalid)
  await expect(calls.findAlertEmailConfirmation(hashOf(token))).rejects.toMatchObject(invalid)
  await expect(calls.confirmAlertEmail(hashOf('x'))).rejects.toMatchObject(invalid)
  expect(notifier.sentTo(accountId)).toHaveLength(1)
  const confirmed = (await entriesOf(catalog, { accountId })).filter(({ actor }) => actor === 'mail')
  expect(confirmed).toMatchObject([
    {
      operation: 'confirmAlertEmail',
      resourceId: accountId,
      changes: { alert_email_confirmed: { from: false, to: true } },
    },
  ])
})

test('if an address is changed again before it is confirmed, its link is no longer valid', async () => {
  const accountId = await givenAccount()
  await calls.updateAccount({ accountId, alertEmail: 'first@vendor.example' })
  await eventually(() => expect(notifier.sentTo(accountId)).toHaveLength(1))
  const [first] = notifier.sentTo(accountId)

  // Both replicas wait for the mail server, so the mail to the second address is not created yet.
  const { promise: answered, resolve: answerAll } = Promise.withResolvers<void>()
  // Answers even if the test fails, because a replica does not stop while it waits.
  using release = new DisposableStack()
  release.defer(answerAll)
  let waiting = 0
  notifier.answerWith(async () => {
    waiting += 1
    await answered
    return { retryAfterSeconds: 0 }
  })
  for (const replica of replicas) {
    await replica.updateAccount({
      accountId: await givenAccount(),
      alertEmail: 'other@vendor.example',
    })
  }
  await eventually(() => expect(waiting).toBe(2))
  await calls.updateAccount({ accountId, alertEmail: 'second@vendor.example' })
  await expect(calls.confirmAlertEmail(hashOf(first!.token))).rejects.toMatchObject(invalid)
  answerAll()

  await eventually(() => expect(notifier.sentTo(accountId)).toHaveLength(2))
  await expect(calls.confirmAlertEmail(hashOf(first!.token))).rejects.toMatchObject(invalid)
  expect(await state(accountId)).toEqual(['second@vendor.example', false, 'old@vendor.example'])
  await calls.confirmAlertEmail(hashOf(notifier.sentTo(accountId)[1]!.token))
  expect(await state(accountId)).toEqual(['second@vendor.example', true, 'second@vendor.example'])
})

test.for([
  ['old@vendor.example', ['old@vendor.example', true, 'old@vendor.example']],
  ['', [undefined, false, undefined]],
] as const)(
  'setting the address %j, which is the confirmed one or none, needs no confirmation and cancels a pending one',
  async ([alertEmail, expected]) => {
    const accountId = await givenAccount()
    await calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })
    await eventually(() => expect(notifier.sentTo(accountId)).toHaveLength(1))
    await calls.updateAccount({ accountId, alertEmail })
    expect(await state(accountId)).toEqual(expected)
    const [mail] = notifier.sentTo(accountId)
    await expect(calls.confirmAlertEmail(hashOf(mail!.token))).rejects.toMatchObject(invalid)
    expect(await state(accountId)).toEqual(expected)
    expect(notifier.sentTo(accountId)).toHaveLength(1)
  },
)

test('a link is valid for seven days; setting the same address again sends another mail only after ten minutes', async () => {
  const accountId = await givenAccount(null)
  const set = () => calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })
  await set()
  await eventually(async () => expect(await confirmationOf(accountId)).toMatchObject({ is_mailed: true }))
  await set()
  await calls.updateAccount({ accountId, name: 'Renamed' })
  // Neither call requested a mail.
  const held = await confirmationOf(accountId)
  expect(held!.is_due).toBe(false)
  expect(held!.days_left).toBeGreaterThan(6.9)
  expect(held!.days_left).toBeLessThanOrEqual(7)

  await sql`
    update alert_email_confirmations set expires_at = now() - interval '1 second' where account_id = ${accountId}`
  const { token } = notifier.sentTo(accountId)[0]!
  await expect(calls.findAlertEmailConfirmation(hashOf(token))).rejects.toMatchObject(invalid)
  await expect(calls.confirmAlertEmail(hashOf(token))).rejects.toMatchObject(invalid)
  expect(await state(accountId)).toEqual(['new@vendor.example', false, undefined])

  await sql`
    update alert_email_confirmations set mailed_at = now() - interval '11 minutes' where account_id = ${accountId}`
  await set()
  await eventually(() => expect(notifier.sentTo(accountId)).toHaveLength(2))
  await calls.confirmAlertEmail(hashOf(notifier.sentTo(accountId)[1]!.token))
  expect(await state(accountId)).toEqual(['new@vendor.example', true, 'new@vendor.example'])
})

test('several replicas send the mail of each account once', async () => {
  // A slow mail server, so that the other replica looks for mails at the same time.
  notifier.answerWith(() => new Promise((resolve) => setTimeout(resolve, 100, { retryAfterSeconds: 0 })))
  const accounts = await Promise.all(Array.from({ length: 20 }, () => givenAccount()))
  await Promise.all(
    accounts.map((accountId, i) =>
      replicas[i % 2]!.updateAccount({ accountId, alertEmail: 'new@vendor.example' }),
    ),
  )
  await eventually(async () => {
    for (const accountId of accounts) {
      expect(await confirmationOf(accountId)).toMatchObject({ is_mailed: true })
    }
  })
  expect(accounts.map((accountId) => notifier.sentTo(accountId).length)).toEqual(Array(20).fill(1))
})

test('if two addresses are set one after another, the newest gets a mail when the notifier accepts one again', async () => {
  let left = 2
  notifier.answerWith(() => ({ retryAfterSeconds: (left -= 1) >= 0 ? 0 : 3_000 }))
  const accountId = await givenAccount()
  for (let i = 0; i < 40; i += 1) {
    await calls.updateAccount({ accountId, alertEmail: `${i % 2 === 0 ? 'one' : 'two'}@example.com` })
  }
  await eventually(async () =>
    expect((await confirmationOf(accountId))!.pause_seconds).toBeGreaterThan(2_900),
  )
  const before = notifier.sentTo(accountId).length
  expect(before).toBeLessThanOrEqual(2)
  expect(await state(accountId)).toEqual(['two@example.com', false, 'old@vendor.example'])
  left = 1
  await sql`update alert_email_confirmations set due_at = now() where account_id = ${accountId}`
  catalog.lookForMails()
  await eventually(() => expect(notifier.sentTo(accountId)).toHaveLength(before + 1))
  expect(notifier.sentTo(accountId).at(-1)!.address).toBe('two@example.com')
})

test('a mail that could not be sent is tried again with another token, a limited number of times', async () => {
  const tokens: string[] = []
  let failures = 2
  notifier.answerWith(({ token }) => {
    tokens.push(token)
    failures -= 1
    if (failures < 0) return { retryAfterSeconds: 0 }
    throw new ServiceError('unavailable', 'the mail server did not accept the mail')
  })
  const accountId = await givenAccount()
  await calls.updateAccount({ accountId, alertEmail: 'new@vendor.example' })
  await eventually(async () => {
    // The lease of a mail that is being sent is longer.
    await sql`
      update alert_email_confirmations set due_at = now()
      where account_id = ${accountId} and due_at < now() + interval '1 minute'`
    catalog.lookForMails()
    expect(notifier.sentTo(accountId)).toHaveLength(1)
  })
  expect(new Set(tokens).size).toBe(3)
  await calls.confirmAlertEmail(hashOf(tokens[2]!))

  failures = 1_000
  await calls.updateAccount({ accountId, alertEmail: 'other@vendor.example' })
  await sql`update alert_email_confirmations set tries = 29, due_at = now() where account_id = ${accountId}`
  await eventually(async () => {
    catalog.lookForMails()
    expect(await confirmationOf(accountId)).toMatchObject({ is_due: false })
  })
  expect(notifier.sentTo(accountId)).toHaveLength(1)
})

test('setting an address while its link is used leaves a consistent state', async () => {
  for (let i = 0; i < 10; i += 1) {
    const accountId = await givenAccount()
    await calls.updateAccount({ accountId, alertEmail: 'first@vendor.example' })
    await eventually(() => expect(notifier.sentTo(accountId)).toHaveLength(1))
    const [confirmed] = await Promise.allSettled([
      replicas[1].confirmAlertEmail(hashOf(notifier.sentTo(accountId)[0]!.token)),
      calls.updateAccount({ accountId, alertEmail: '' }),
    ])
    expect(await state(accountId), confirmed.status).toEqual([undefined, false, undefined])
  }
})

test.for(['a@b,c@d', '<a@b>', 'a@b>', 'a;b@c', 'a@b\r\nBcc:c@d', 'a\u0001@b', 'a"b@c'])(
  '%j is refused as an address',
  async (alertEmail) => {
    const { accountId } = await givenTenant(catalog)
    await expect(calls.updateAccount({ accountId, alertEmail })).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/alert_email' }],
    })
  },
)
