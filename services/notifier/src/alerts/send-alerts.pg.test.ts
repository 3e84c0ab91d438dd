import { transaction } from '@licensing/database/transaction'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import type { AlertKind } from '@licensing/proto/closed-sets'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenEvent, publish } from '../../test/events.ts'
import { startMailbox } from '../../test/mailbox.ts'
import type { Mailbox } from '../../test/mailbox.ts'
import { startTestNotifier } from '../../test/notifier.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { deleteOld } from '../maintenance/maintenance.ts'
import { insertAlerts } from './alert-queries.ts'
import type { NewAlert } from './alert-queries.ts'
import { createMailer } from './mailer.ts'

const from = 'alerts@licensing.example'
const addressOf = (accountId: string) => `${accountId}@vendor.example`

const start = (mailbox: Mailbox) =>
  startTestNotifier({
    alertEmail: (accountId) => Promise.resolve(addressOf(accountId)),
    sendMail: createMailer(mailbox.url, from),
    publicUrl: 'https://licensing.example/',
  })

/** Alert events as billing publishes them. */
function billingAlerts({ natsServer, of }: TestNotifier, count: number, alert: object = {}) {
  const kind: AlertKind = 'processor_event_parked'
  const value = {
    subject: 'An event cannot be handled',
    text: 'Event evt_1 cannot be handled.',
    kind,
    ...alert,
  }
  const events = Array.from({ length: count }, () =>
    givenEvent({ ...of, payload: { case: 'vendorAlert', value } }),
  )
  return publish({ natsServer }, events, { source: 'billing' })
}

const givenAlert = ({ of }: TestNotifier, alert: Partial<NewAlert> = {}): NewAlert => ({
  ...of,
  endpointId: null,
  kind: 'endpoint_failing',
  subject: 'Subject',
  text: 'Text',
  ...alert,
})

async function insertWaiting(tx: Transaction, accountId: string, count: number): Promise<void> {
  await tx`
    insert into alerts (account_id, kind, subject, text)
    select ${accountId}, 'endpoint_failing', 'Subject', 'Text ' || n from generate_series(1, ${count}::int) n`
}

/** Inserts alerts of many accounts in one transaction. */
async function waitingAlerts({ sql }: TestNotifier, counts: Record<string, number>): Promise<void> {
  await transaction(sql, async (tx) => {
    for (const [accountId, count] of Object.entries(counts)) {
      await insertWaiting(tx, accountId, count)
    }
  })
}

async function states({ sql, of }: TestNotifier, accountId = of.accountId) {
  const [row] = await sql<{ stored: number; mailed: number; waiting: number }[]>`
    select count(*)::int as stored, count(mailed_at)::int as mailed, (count(*) - count(completed_at))::int as waiting
    from alerts where account_id = ${accountId}`
  return row!
}

async function expectPostponed({ sql, of }: TestNotifier): Promise<void> {
  await eventually(async () =>
    expect(
      await sql`
        select 1 from alert_mailings
        where account_id = ${of.accountId} and next_mail_at > now() + interval '30 minutes'`,
    ).toHaveLength(1),
  )
}

async function anHourLater({ sql }: TestNotifier): Promise<void> {
  await sql`update mail_allowances set mailed = array(select at - interval '1 hour' from unnest(mailed) at)`
  await sql`update alert_mailings set next_mail_at = now()`
}

test(
  '850 alerts are sent in six mails within an hour, and the next mail lists all other alerts',
  { timeout: 60_000 },
  async () => {
    await using mailbox = await startMailbox()
    await using notifier = await start(mailbox)
    for (let mails = 1; mails <= 6; mails += 1) {
      await billingAlerts(notifier, 1)
      await eventually(async () => expect(await states(notifier)).toMatchObject({ mailed: mails }))
    }
    await billingAlerts(notifier, 844)
    await eventually(async () => expect(await states(notifier)).toMatchObject({ stored: 850 }))
    await expectPostponed(notifier)
    expect(mailbox.mails).toHaveLength(6)
    expect(await states(notifier)).toEqual({ stored: 850, mailed: 6, waiting: 844 })

    await anHourLater(notifier)
    await eventually(
      async () => expect(await states(notifier)).toEqual({ stored: 850, mailed: 850, waiting: 0 }),
      {
        timeoutMs: 20_000,
      },
    )
    expect(mailbox.mails).toHaveLength(7)
    const { subject, text } = mailbox.mails[6]!
    expect(subject).toBe('844 alerts: An event of the payment processor cannot be handled')
    expect(text.length).toBeLessThan(300_000)
    expect(text.split('\n').filter((line) => line.includes(notifier.of.applicationId))).toHaveLength(844)
  },
)

test('a mail lists a thousand alerts and counts the others, which are not marked as mailed', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  mailbox.refuse(1)
  await transaction(notifier.sql, async (tx) => {
    await insertWaiting(tx, notifier.of.accountId, 1_000)
    await insertAlerts(tx, [givenAlert(notifier), givenAlert(notifier)])
    await insertAlerts(tx, [givenAlert(notifier)])
  })
  // The first try fails.
  await eventually(async () => {
    await notifier.sql`update alert_mailings set next_mail_at = now() where failures > 0`
    expect(await states(notifier)).toEqual({ stored: 1_003, mailed: 1_000, waiting: 0 })
  })
  expect(mailbox.mails).toHaveLength(1)
  expect(mailbox.mails[0]!.subject).toBe('1003 alerts: Webhook endpoint failing')
  expect(mailbox.mails[0]!.text).toContain('3 more alerts are not listed here.')
  // The next mail does not count them again.
  await notifier.sql.begin((tx) => insertAlerts(tx, [givenAlert(notifier)]))
  await eventually(() => expect(mailbox.mails).toHaveLength(2), { timeoutMs: 30_000 })
  expect(mailbox.mails[1]!.subject).toBe('Webhook endpoint failing')
})

test('a waiting alert is replaced by one of the same kind about the same endpoint', async () => {
  await using notifier = await startTestNotifier({
    alertEmail: () => Promise.reject(new ServiceError('unavailable', 'catalog is unavailable')),
    sendMail: () => Promise.resolve(),
  })
  const { sql } = notifier
  const [first, second] = [newId('whe'), newId('whe')]
  const insert = (alert: Partial<NewAlert>) =>
    sql.begin((tx) => insertAlerts(tx, [givenAlert(notifier, alert)]))
  await insert({ endpointId: first, text: 'one' })
  await insert({ endpointId: second, text: 'two' })
  await insert({ endpointId: first, text: 'three' })
  await insert({ endpointId: first, kind: 'endpoint_disabled', text: 'four' })
  await insert({ text: 'five' })
  await insert({ text: 'six' })
  const texts = async () => {
    const rows = await sql<{ text: string }[]>`select text from alerts order by id`
    return rows.map(({ text }) => text)
  }
  expect(await texts()).toEqual(['two', 'three', 'four', 'five', 'six'])
  await sql`update alerts set completed_at = now()`
  await insert({ endpointId: first, text: 'seven' })
  expect(await texts()).toEqual(['two', 'three', 'four', 'five', 'six', 'seven'])
})

test('an alert is deleted 90 days after it was completed, and never while it waits', async () => {
  await using notifier = await startTestNotifier({
    alertEmail: () => Promise.reject(new ServiceError('unavailable', 'catalog is unavailable')),
    sendMail: () => Promise.resolve(),
  })
  const { sql, of } = notifier
  await sql`
    insert into alerts (account_id, kind, subject, text, created_at, completed_at)
    select ${of.accountId}, 'refund_reversed', 'Subject', coalesce(days || ' days', 'waiting'), now() - interval '200 days',
      now() - days * interval '1 day'
    from unnest(array[89, 91, null]) as days`
  await sql`
    insert into alerts (account_id, kind, subject, text, completed_at)
    select ${of.accountId}, 'refund_reversed', 'Subject', 'many', now() - interval '100 days'
    from generate_series(1, 2500)`
  // The notifier's own loop may delete some of them at the same time. A round that finds fewer than it asked for ends.
  await eventually(async () => {
    await deleteOld(sql)
    expect(await sql`select text from alerts order by id`).toEqual([{ text: '89 days' }, { text: 'waiting' }])
  })
})

test('an account with endless alerts delays the mail of another account by at most one mail', async () => {
  await using mailbox = await startMailbox()
  const [flooding = '', quiet = ''] = [newId('acct'), newId('acct')].toSorted()
  await using notifier: TestNotifier = await startTestNotifier({
    // It is called for each mail, and inserts another alert before that mail is sent.
    alertEmail: async (accountId) => {
      if (accountId === flooding) await waitingAlerts(notifier, { [flooding]: 1 })
      return addressOf(accountId)
    },
    sendMail: createMailer(mailbox.url, from),
  })
  await waitingAlerts(notifier, { [flooding]: 1, [quiet]: 1 })
  await eventually(() => expect(mailbox.mails.flatMap(({ to }) => to)).toContain(addressOf(quiet)))
  expect(mailbox.mails.findIndex(({ to }) => to[0] === addressOf(quiet))).toBeLessThanOrEqual(1)
})

test('replicas send each mail once', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  await using _second = await notifier.replica()
  await using _third = await notifier.replica()
  const accounts = Array.from({ length: 60 }, () => newId('acct'))
  await waitingAlerts(notifier, Object.fromEntries(accounts.map((id) => [id, 3])))
  await eventually(async () =>
    expect(await notifier.sql`select 1 from alerts where mailed_at is not null`).toHaveLength(180),
  )
  expect(mailbox.mails.flatMap(({ to }) => to).toSorted()).toEqual(accounts.map(addressOf).toSorted())
})

test('a refused mail does not count; a mail that may have been accepted counts and keeps its Message-ID', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  const { sql, of } = notifier
  const counted = async () =>
    (
      await sql<{ count: number }[]>`
      select cardinality(mailed) as count from mail_allowances where key = ${of.accountId}`
    )[0]?.count
  const failures = async (count: number) =>
    expect(await sql`select 1 from alert_mailings where failures = ${count}`).toHaveLength(1)
  mailbox.refuse(1)
  await billingAlerts(notifier, 1)
  await eventually(() => failures(1))
  expect(await counted()).toBe(0)

  mailbox.breakOff(1)
  await sql`update alert_mailings set next_mail_at = now()`
  await eventually(() => failures(2))
  expect(await counted()).toBe(1)

  await sql`update alert_mailings set next_mail_at = now()`
  await eventually(async () => expect(await states(notifier)).toMatchObject({ mailed: 1 }))
  expect(await counted()).toBe(2)
  const ids = mailbox.mails.map(({ text }) => /^Message-ID: .*$/im.exec(text)?.[0])
  expect(ids).toHaveLength(2)
  expect(ids[0]).toBe(ids[1])
})

test('no text of an alert reaches the header of its mail', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  const hostile = 'You won\r\nBcc: everybody@example.com\r\n\r\nhttps://evil.example'
  await billingAlerts(notifier, 1, { subject: hostile, text: `\u001b[2J${hostile}`, kind: 'refund_reversed' })
  await eventually(() => expect(mailbox.mails).toHaveLength(1))
  const [{ subject, text, to }] = mailbox.mails as [Mailbox['mails'][number]]
  const [header = '', body = ''] = text.split(/\r\n\r\n([^]*)/)
  expect(subject).toBe('A refund failed')
  expect(header).not.toMatch(/won|evil|everybody/)
  expect(to).toEqual([addressOf(notifier.of.accountId)])
  expect(body).toContain('https://evil.example')
  expect(body).not.toContain('\u001b')
})

test('an address that looks like a list is used as one address', async () => {
  await using mailbox = await startMailbox()
  const sendMail = createMailer(mailbox.url, from)
  const mail = { to: 'one@a.example, two@b.example', subject: 'Subject', text: 'Text', reference: 'r' }
  await sendMail(mail).catch(() => undefined)
  for (const { to } of mailbox.mails) expect(to).toHaveLength(1)
  await sendMail({ ...mail, to: 'one@a.example' })
  expect(mailbox.mails.at(-1)!.to).toEqual(['one@a.example'])
})

const token = 'a'.repeat(43)
const confirmation = (accountId: string, address: string) => ({ accountId, address, token })

test('a confirmation mail has the link and no text of the vendor', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  const { accountId } = notifier.of
  const address = 'ops@vendor.example'
  expect(await notifier.calls.sendConfirmation(confirmation(accountId, address))).toMatchObject({
    retryAfterSeconds: 0,
  })
  const [mail] = mailbox.mails
  expect(mail!.to).toEqual([address])
  expect(mail!.subject).toBe('Confirm this address for alerts')
  expect(mail!.text).toContain(`https://licensing.example/confirm-alert-email?token=${token}`)
  expect(mail!.text).toContain(accountId)
})

test('without a mail server a confirmation is unavailable', async () => {
  await using notifier = await startTestNotifier()
  await expect(
    notifier.calls.sendConfirmation(confirmation(notifier.of.accountId, 'ops@vendor.example')),
  ).rejects.toMatchObject({ code: 'unavailable' })
})

test('confirmations and alerts of an account share its six mails an hour', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  const { accountId } = notifier.of
  const send = (n: number) => notifier.calls.sendConfirmation(confirmation(accountId, `${n}@vendor.example`))
  const answers = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(send))
  expect(answers.filter(({ retryAfterSeconds }) => retryAfterSeconds === 0)).toHaveLength(6)
  for (const { retryAfterSeconds } of answers.filter((answer) => answer.retryAfterSeconds !== 0)) {
    expect(retryAfterSeconds).toBeGreaterThan(3_000)
    expect(retryAfterSeconds).toBeLessThanOrEqual(3_600)
  }
  await billingAlerts(notifier, 1)
  await expectPostponed(notifier)
  expect(mailbox.mails).toHaveLength(6)
})

test('an unconfirmed address gets five mails a day, from all accounts together and in any spelling', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  const written = ['victim@example.com', 'Victim@example.com', 'victim+a@example.com', 'victim+b@EXAMPLE.com']
  const answers = []
  for (let i = 0; i < 12; i += 1) {
    answers.push(await notifier.calls.sendConfirmation(confirmation(newId('acct'), written[i % 4]!)))
  }
  expect(answers.map(({ retryAfterSeconds }) => retryAfterSeconds > 0)).toEqual(
    Array.from({ length: 12 }, (_, i) => i >= 5),
  )
  expect(mailbox.mails).toHaveLength(5)
  expect(answers.at(-1)!.retryAfterSeconds).toBeGreaterThan(80_000)
  // Refused mails do not count against their accounts either.
  const used = await notifier.sql`select 1 from mail_allowances where key like 'acct_%'`
  expect(used).toHaveLength(5)
})

test('a confirmation that the mail server refuses does not count', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  mailbox.refuse(10)
  const send = () =>
    notifier.calls.sendConfirmation(confirmation(notifier.of.accountId, 'ops@vendor.example'))
  for (let i = 0; i < 10; i += 1) await expect(send()).rejects.toMatchObject({ code: 'unavailable' })
  expect(await send()).toMatchObject({ retryAfterSeconds: 0 })
})
