import { newId } from '@licensing/database/ids'
import { closedSets } from '@licensing/proto/closed-sets'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, expect, test } from 'vitest'
import { givenEvent, publish } from '../../test/events.ts'
import { startMailbox } from '../../test/mailbox.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, notifierOfFile, startTestNotifier } from '../../test/notifier.ts'
import { createMailer } from './mailer.ts'

const mailbox = await startMailbox()
afterAll(() => mailbox[Symbol.asyncDispose]())

const vendor = notifierOfFile({
  backoffSeconds: [0.02],
  alertEmail: (accountId) => Promise.resolve(`${accountId}@vendor.example`),
  sendMail: createMailer(mailbox.url, 'alerts@licensing.example'),
  publicUrl: 'https://licensing.example/',
})

const mailsTo = (address: string) => mailbox.mails.filter(({ to }) => to.includes(address))
const alertMailsOf = ({ of }: TestNotifier) => mailsTo(`${of.accountId}@vendor.example`)

async function alertsOf(notifier: TestNotifier, of: object = {}) {
  const { accountId } = notifier.of
  return (await notifier.calls.listAlerts({ accountId, ...firstPage, ...of })).alerts
}

const mailed = (notifier: TestNotifier, count: number) =>
  eventually(async () => {
    const alerts = (await alertsOf(notifier)).filter(({ mailedAt }) => mailedAt !== undefined)
    expect(alerts).toHaveLength(count)
    return alerts
  })

const alertEvent = (of: TestNotifier['of'], value: object = {}) =>
  givenEvent({
    ...of,
    payload: { case: 'vendorAlert', value: { subject: 'Subject', text: 'Text', ...value } },
  })

test('when an endpoint exhausts its retries, the alerts about it are mailed to the address of the account', async () => {
  await using receiver = await startHttpsReceiver({ status: 418 })
  const notifier = vendor()
  const { id: endpointId } = await notifier.register(receiver.url())
  await notifier.happen(3)
  // The sixth failure causes another alert, and the seventh may. Alerts that wait together are sent in one mail.
  const { applicationId } = notifier.of
  await eventually(async () => {
    const alerts = (await alertsOf(notifier)).filter(({ mailedAt }) => mailedAt !== undefined)
    for (const kind of ['endpoint_disabled', 'endpoint_failing']) {
      expect(alerts).toContainEqual(expect.objectContaining({ kind, applicationId, endpointId }))
    }
  })
  const mails = alertMailsOf(notifier).filter(({ text }) => text.includes('has been disabled'))
  expect(mails).toHaveLength(1)
  expect(mails[0]!.subject).toContain('Webhook endpoint disabled')
  for (const part of ['From: alerts@licensing.example', endpointId, 'status 418']) {
    expect(mails[0]!.text).toContain(part)
  }
})

test('alerts of another service are mailed, also of an unknown kind, and are not listed as events', async () => {
  const notifier = vendor()
  const known = () => alertEvent(notifier.of, { text: 'Refund re_1 failed.', kind: 'refund_reversed' })
  const unknown = alertEvent(notifier.of, { kind: 'of_another_release' })
  await publish(notifier, [known(), known(), unknown], { source: 'billing' })
  const [newest] = await mailed(notifier, 3)
  expect(newest).toMatchObject({ kind: 'processor_event_parked' })
  const texts = alertMailsOf(notifier).map(({ text }) => text)
  expect(texts.join('').split('Refund re_1 failed.')).toHaveLength(3)
  const events = await notifier.calls.listEvents({ accountId: notifier.of.accountId, after: 0n, limit: 0 })
  expect(events.envelopes).toEqual([])
})

test('alerts are listed newest first, each once, with kind, application and text', async () => {
  // Without a mail server, so that no alert changes while the pages are read.
  await using notifier = await startTestNotifier()
  const { accountId, applicationId } = notifier.of
  const kinds = closedSets.alertKind
  const events = kinds.map((kind, i) =>
    alertEvent({ accountId, applicationId: i % 2 === 0 ? applicationId : '' }, { text: `Text ${i}`, kind }),
  )
  const elsewhere = alertEvent({ accountId: newId('acct'), applicationId }, { kind: 'refund_reversed' })
  await publish(notifier, [elsewhere, ...events], { source: 'billing' })
  const completed = () => notifier.sql`select 1 from alerts where completed_at is not null`
  await eventually(async () => expect(await completed()).toHaveLength(kinds.length + 1))

  const all = await alertsOf(notifier)
  expect(all.map(({ kind, detail }) => [kind, detail])).toEqual(
    kinds.map((kind, i) => [kind, `Text ${i}`]).toReversed(),
  )
  const paged: typeof all = []
  for (let hasMore = true; hasMore;) {
    const beforeId = paged.at(-1)?.id ?? ''
    const page = await notifier.calls.listAlerts({ accountId, limit: 2, beforeId })
    paged.push(...page.alerts)
    hasMore = page.hasMore
  }
  expect(paged).toEqual(all)
  const ofApplication = all.filter(({ applicationId: id }) => id === applicationId)
  expect(ofApplication).toHaveLength(Math.ceil(kinds.length / 2))
  expect(all.filter(({ applicationId: id }) => id === undefined)).toHaveLength(Math.floor(kinds.length / 2))
  expect(await alertsOf(notifier, { onlyApplicationId: applicationId })).toEqual(ofApplication)
  expect(await alertsOf(notifier, { onlyApplicationId: newId('app') })).toEqual([])

  await expect(confirm(notifier, 'ops@vendor.example')).rejects.toMatchObject({ code: 'unavailable' })
})

const token = 'a'.repeat(43)
const confirm = ({ calls, of }: TestNotifier, address: string) =>
  calls.sendConfirmation({ accountId: of.accountId, address, token })

test('a confirmation mail has the link and no text of the vendor', async () => {
  const notifier = vendor()
  const address = 'link@vendor.example'
  expect(await confirm(notifier, address)).toMatchObject({ retryAfterSeconds: 0 })
  const [mail] = mailsTo(address)
  expect(mail!.subject).toBe('Confirm this address for alerts')
  expect(mail!.text).toContain(`https://licensing.example/confirm-alert-email?token=${token}`)
  expect(mail!.text).toContain(notifier.of.accountId)
})

test('confirmations and alerts of an account share its six mails an hour', async () => {
  const notifier = vendor()
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) => confirm(notifier, `${n}@share.example`)),
  )
  const waits = answers.map(({ retryAfterSeconds }) => retryAfterSeconds).filter((seconds) => seconds !== 0)
  expect(waits).toHaveLength(2)
  for (const seconds of waits) {
    expect(seconds).toBeGreaterThan(3_000)
    expect(seconds).toBeLessThanOrEqual(3_600)
  }
  await publish(notifier, [alertEvent(notifier.of)], { source: 'billing' })
  const postponed = () => notifier.sql`
    select 1 from alert_mailings
    where account_id = ${notifier.of.accountId} and next_mail_at > now() + interval '30 minutes'`
  await eventually(async () => expect(await postponed()).toHaveLength(1))
  expect(alertMailsOf(notifier)).toEqual([])
  expect(mailbox.mails.filter(({ to }) => to[0]!.endsWith('@share.example'))).toHaveLength(6)
})

test('an unconfirmed address gets five mails a day, from all accounts together and in any spelling', async () => {
  const written = ['victim@example.com', 'Victim@example.com', 'victim+a@example.com', 'victim+b@EXAMPLE.com']
  const vendors = Array.from({ length: 12 }, vendor)
  const waits = []
  for (const [i, notifier] of vendors.entries()) {
    waits.push((await confirm(notifier, written[i % 4]!)).retryAfterSeconds)
  }
  expect(waits.map((seconds) => seconds > 0)).toEqual(vendors.map((_, i) => i >= 5))
  expect(waits.at(-1)).toBeGreaterThan(80_000)
  expect(mailbox.mails.filter(({ to }) => /^victim/i.test(to[0]!))).toHaveLength(5)
  // Refused mails do not count against their accounts either.
  const accounts = vendors.map(({ of }) => of.accountId)
  const used = await vendor().sql`select 1 from mail_allowances where key = any(${accounts}::text[])`
  expect(used).toHaveLength(5)
})

test('a confirmation that the mail server refuses does not count', async () => {
  const notifier = vendor()
  const send = () => confirm(notifier, 'refused@vendor.example')
  mailbox.refuse(10)
  for (let i = 0; i < 10; i += 1) await expect(send()).rejects.toMatchObject({ code: 'unavailable' })
  expect(await send()).toMatchObject({ retryAfterSeconds: 0 })
})
