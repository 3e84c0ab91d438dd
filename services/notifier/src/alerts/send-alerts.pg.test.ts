import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import { createLogger } from '@licensing/process/log'
import { expect, test } from 'vitest'
import { givenDatabase } from '../../test/database.ts'
import { startMailbox } from '../../test/mailbox.ts'
import { deleteOld } from '../maintenance/maintenance.ts'
import { insertAlerts } from './alert-queries.ts'
import type { NewAlert } from './alert-queries.ts'
import { createMailer } from './mailer.ts'
import { sendAlerts } from './send-alerts.ts'
import type { AlertDependencies } from './send-alerts.ts'

const from = 'alerts@licensing.example'
const addressOf = (accountId: string) => `${accountId}@vendor.example`
const log = createLogger('test', 'silent')

const givenAlert = (accountId: string, alert: Partial<NewAlert> = {}): NewAlert => ({
  accountId,
  applicationId: 'app_1',
  endpointId: null,
  kind: 'endpoint_failing',
  subject: 'Subject',
  text: 'Text',
  ...alert,
})

/** An account in a database of its own, and a mail server. */
async function given() {
  await using started = new AsyncDisposableStack()
  const { sql } = started.use(await givenDatabase())
  const mailbox = started.use(await startMailbox())
  const accountId = newId('acct')
  const running = started.move()
  return {
    sql,
    mailbox,
    accountId,
    /** Inserts alerts of the account in one statement. */
    add: (count: number, alert: Partial<NewAlert> = {}) =>
      transaction(sql, (tx) =>
        insertAlerts(
          tx,
          Array.from({ length: count }, () => givenAlert(accountId, alert)),
        ),
      ),
    /** Sends the mails that are due, as a replica does. */
    send: (options: Partial<AlertDependencies> = {}) =>
      sendAlerts(
        {
          sql,
          log,
          alertEmail: (id) => Promise.resolve(addressOf(id)),
          sendMail: createMailer(mailbox.url, from),
          ...options,
        },
        new AbortController().signal,
      ),
    async states() {
      const [row] = await sql<{ stored: number; mailed: number; waiting: number }[]>`
        select count(*)::int as stored, count(mailed_at)::int as mailed,
          (count(*) - count(completed_at))::int as waiting
        from alerts`
      return row!
    },
    /** Ends the pause after a mail that failed. */
    endPause: () => sql`update alert_mailings set next_mail_at = now()`,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

test('850 alerts are sent in six mails within an hour, and the next mail lists all other alerts', async () => {
  await using account = await given()
  const { sql, mailbox, add, send, states, endPause } = account
  for (let mails = 1; mails <= 6; mails += 1) {
    await add(1, { kind: 'processor_event_parked' })
    await send()
  }
  await add(844, { kind: 'processor_event_parked' })
  await send()
  expect(mailbox.mails).toHaveLength(6)
  expect(await states()).toEqual({ stored: 850, mailed: 6, waiting: 844 })
  const postponed = await sql`select 1 from alert_mailings where next_mail_at > now() + interval '30 minutes'`
  expect(postponed).toHaveLength(1)

  await sql`update mail_allowances set mailed = array(select at - interval '1 hour' from unnest(mailed) at)`
  await endPause()
  await send()
  expect(await states()).toEqual({ stored: 850, mailed: 850, waiting: 0 })
  expect(mailbox.mails).toHaveLength(7)
  const { subject, text } = mailbox.mails[6]!
  expect(subject).toBe('844 alerts: An event of the payment processor cannot be handled')
  expect(text.length).toBeLessThan(300_000)
  expect(text.split('\n').filter((line) => line.includes('app_1'))).toHaveLength(844)
})

test('a mail lists a thousand alerts and counts the others, which are not marked as mailed', async () => {
  await using account = await given()
  const { mailbox, add, send, states, endPause } = account
  for (const count of [1_000, 2, 1]) await add(count)
  mailbox.refuse(1)
  await send()
  await endPause()
  await send()
  expect(await states()).toEqual({ stored: 1_003, mailed: 1_000, waiting: 0 })
  expect(mailbox.mails).toHaveLength(1)
  expect(mailbox.mails[0]!.subject).toBe('1003 alerts: Webhook endpoint failing')
  expect(mailbox.mails[0]!.text).toContain('3 more alerts are not listed here.')
  // The next mail does not count them again.
  await add(1)
  await send()
  expect(mailbox.mails.map(({ subject }) => subject).slice(1)).toEqual(['Webhook endpoint failing'])
})

test('a waiting alert is replaced by one of the same kind about the same endpoint', async () => {
  await using account = await given()
  const { sql, add } = account
  const [first, second] = [newId('whe'), newId('whe')]
  await add(1, { endpointId: first, text: 'one' })
  await add(1, { endpointId: second, text: 'two' })
  await add(1, { endpointId: first, text: 'three' })
  await add(1, { endpointId: first, kind: 'endpoint_disabled', text: 'four' })
  await add(1, { text: 'five' })
  await add(1, { text: 'six' })
  const texts = async () => {
    const rows = await sql<{ text: string }[]>`select text from alerts order by id`
    return rows.map(({ text }) => text)
  }
  expect(await texts()).toEqual(['two', 'three', 'four', 'five', 'six'])
  await sql`update alerts set completed_at = now()`
  await add(1, { endpointId: first, text: 'seven' })
  expect(await texts()).toEqual(['two', 'three', 'four', 'five', 'six', 'seven'])
})

test('an alert is deleted 90 days after it was completed, and never while it waits', async () => {
  await using account = await given()
  const { sql, accountId } = account
  await sql`
    insert into alerts (account_id, kind, subject, text, created_at, completed_at)
    select ${accountId}, 'refund_reversed', 'Subject', coalesce(days || ' days', 'waiting'), now() - interval '200 days',
      now() - days * interval '1 day'
    from unnest(array[89, 91, null]) as days`
  await sql`
    insert into alerts (account_id, kind, subject, text, completed_at)
    select ${accountId}, 'refund_reversed', 'Subject', 'many', now() - interval '100 days'
    from generate_series(1, 2500)`
  await deleteOld(sql, new Date())
  expect(await sql`select text from alerts order by id`).toEqual([{ text: '89 days' }, { text: 'waiting' }])
})

const insertFor = (tx: Transaction, accountIds: string[]) =>
  insertAlerts(
    tx,
    accountIds.map((accountId) => givenAlert(accountId)),
  )

test('an account with endless alerts delays the mail of another account by at most one mail', async () => {
  await using account = await given()
  const { sql, mailbox, send } = account
  const [flooding = '', quiet = ''] = [newId('acct'), newId('acct')].toSorted()
  await transaction(sql, (tx) => insertFor(tx, [flooding, quiet]))
  // It is called for each mail, and inserts another alert before that mail is sent.
  const alertEmail = async (accountId: string) => {
    if (accountId === flooding) await transaction(sql, (tx) => insertFor(tx, [flooding]))
    return addressOf(accountId)
  }
  await send({ alertEmail })
  const recipients = mailbox.mails.map(({ to }) => to[0])
  expect(recipients.length).toBeGreaterThan(2)
  expect(recipients.slice(0, 2)).toContain(addressOf(quiet))
})

test('replicas send each mail once', async () => {
  await using account = await given()
  const { sql, mailbox, send, states } = account
  const accounts = Array.from({ length: 60 }, () => newId('acct'))
  await transaction(sql, (tx) => insertFor(tx, [...accounts, ...accounts, ...accounts]))
  await Promise.all([send(), send(), send()])
  expect(await states()).toEqual({ stored: 180, mailed: 180, waiting: 0 })
  expect(mailbox.mails.flatMap(({ to }) => to).toSorted()).toEqual(accounts.map(addressOf).toSorted())
})

test('a mail is retried until it is accepted; if it may have been accepted, it counts and keeps its Message-ID', async () => {
  await using account = await given()
  const { sql, mailbox, add, send, states, endPause } = account
  await add(1)
  const trySend = async (options: Partial<AlertDependencies> = {}) => {
    await endPause()
    await send(options)
    const [row] = await sql`
      select failures, coalesce((select cardinality(mailed) from mail_allowances), 0) as counted from alert_mailings`
    return row
  }
  const alertEmail = () => Promise.reject(new ServiceError('unavailable', 'catalog is unavailable'))
  expect(await trySend({ alertEmail })).toEqual({ failures: 1, counted: 0 })
  await send()
  expect(mailbox.mails, 'a pause follows a failure').toEqual([])
  mailbox.refuse(1)
  expect(await trySend()).toEqual({ failures: 2, counted: 0 })
  mailbox.breakOff(1)
  expect(await trySend()).toEqual({ failures: 3, counted: 1 })
  expect(await trySend()).toEqual({ failures: 0, counted: 2 })
  expect(await states()).toMatchObject({ mailed: 1 })
  const ids = mailbox.mails.map(({ text }) => /^Message-ID: .*$/im.exec(text)?.[0])
  expect(ids).toEqual([expect.any(String), ids[0]])
})

test.each([
  { without: 'an address', options: { alertEmail: () => Promise.resolve(null) } },
  { without: 'an account', options: { alertEmail: () => Promise.reject(new ServiceError('not_found', '')) } },
  { without: 'a mail server', options: { sendMail: undefined } },
])('without $without, an alert is completed without a mail', async ({ options }) => {
  await using account = await given()
  const { mailbox, add, send, states } = account
  await add(1)
  await send(options)
  expect(await states()).toEqual({ stored: 1, mailed: 0, waiting: 0 })
  expect(mailbox.mails).toEqual([])
})

test('no text of an alert reaches the header of its mail', async () => {
  await using account = await given()
  const { accountId, mailbox, add, send } = account
  const hostile = 'You won\r\nBcc: everybody@example.com\r\n\r\nhttps://evil.example'
  await add(1, { subject: hostile, text: `\u001b[2J${hostile}`, kind: 'refund_reversed' })
  await send()
  const [mail] = mailbox.mails
  expect(mail).toMatchObject({ subject: 'A refund failed', to: [addressOf(accountId)] })
  const [header = '', body = ''] = mail!.text.split(/\r\n\r\n([^]*)/)
  expect(header).not.toMatch(/won|evil|everybody/)
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
