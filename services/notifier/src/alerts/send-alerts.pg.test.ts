import { newId } from '@licensing/database/ids'
import type { AlertKind } from '@licensing/proto/closed-sets'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenEvent, publish } from '../testing/events.ts'
import { startMailbox } from '../testing/mailbox.ts'
import type { Mailbox } from '../testing/mailbox.ts'
import { startTestNotifier } from '../testing/notifier.ts'
import type { TestNotifier } from '../testing/notifier.ts'
import { createMailer } from './mailer.ts'

const from = 'alerts@licensing.example'
const addressOf = (accountId: string) => `${accountId}@vendor.example`

const start = (mailbox: Mailbox) =>
  startTestNotifier({
    alertEmail: (accountId) => Promise.resolve(addressOf(accountId)),
    sendMail: createMailer(mailbox.url, from),
    publicUrl: 'https://licensing.example/',
  })

/** Alerts of billing, as it sends them. */
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

/** Alerts of many accounts that are all there at one moment. */
async function waitingAlerts({ sql }: TestNotifier, counts: Record<string, number>): Promise<void> {
  await sql.begin(async (tx) => {
    for (const [accountId, count] of Object.entries(counts)) {
      await tx`
        insert into alerts (account_id, kind, subject, text)
        select ${accountId}, 'endpoint_failing', 'Subject', 'Text ' || n from generate_series(1, ${count}::int) n`
    }
  })
}

async function states({ sql, of }: TestNotifier, accountId = of.accountId) {
  const [row] = await sql<{ stored: number; mailed: number; waiting: number }[]>`
    select count(*)::int as stored, count(mailed_at)::int as mailed, (count(*) - count(sent_at))::int as waiting
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
  '850 alerts are six mails within an hour, and the next mail lists all the others',
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

test('a mail lists a thousand alerts and counts the others, which are not said to be mailed', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  mailbox.refuse(1)
  await waitingAlerts(notifier, { [notifier.of.accountId]: 1_300 })
  // The first try fails: the second counts them once more, and no alert twice.
  await eventually(async () => {
    await notifier.sql`update alert_mailings set next_mail_at = now() where failures > 0`
    expect(await states(notifier)).toEqual({ stored: 1_300, mailed: 1_000, waiting: 0 })
  })
  expect(mailbox.mails).toHaveLength(1)
  expect(mailbox.mails[0]!.subject).toBe('1300 alerts: Webhook endpoint failing')
  expect(mailbox.mails[0]!.text).toContain('300 more alerts are not listed here.')
})

test('an account whose alerts never end delays the mail of another by one mail of its own at most', async () => {
  await using mailbox = await startMailbox()
  const [flooding = '', quiet = ''] = [newId('acct'), newId('acct')].toSorted()
  await using notifier: TestNotifier = await startTestNotifier({
    // Asked for within each mail: there is another alert before that mail is sent.
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

test('a mail that the server refused counts for nothing; one that it may have taken counts, and keeps its Message-ID', async () => {
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

test('no word of an alert reaches the header of its mail', async () => {
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

test('an address is one address, also if it reads like a list', async () => {
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

test('a confirmation mail has the link and nothing of the vendor’s', async () => {
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

test('an address that nobody confirmed gets five mails a day, whichever accounts ask and however it is written', async () => {
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
  // Nor do the refused ones count against their accounts.
  const used = await notifier.sql`select 1 from mail_allowances where key like 'acct_%'`
  expect(used).toHaveLength(5)
})

test('a confirmation that the mail server refuses counts for nothing', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await start(mailbox)
  mailbox.refuse(10)
  const send = () =>
    notifier.calls.sendConfirmation(confirmation(notifier.of.accountId, 'ops@vendor.example'))
  for (let i = 0; i < 10; i += 1) await expect(send()).rejects.toMatchObject({ code: 'unavailable' })
  expect(await send()).toMatchObject({ retryAfterSeconds: 0 })
})
