import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { closedSets } from '@licensing/proto/closed-sets'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenEvent, publish } from '../../test/events.ts'
import { startMailbox } from '../../test/mailbox.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, startTestNotifier } from '../../test/notifier.ts'
import { createMailer } from './mailer.ts'

async function alertsOf(notifier: TestNotifier, of: object = {}) {
  const { accountId } = notifier.of
  return (await notifier.calls.listAlerts({ accountId, ...firstPage, ...of })).alerts
}

const mailed = async (notifier: TestNotifier) =>
  (await alertsOf(notifier)).filter(({ mailedAt }) => mailedAt !== undefined)

test('when an endpoint exhausts its retries, one mail is sent to the address of the account', async () => {
  await using mailbox = await startMailbox()
  await using receiver = await startHttpsReceiver({ status: 418 })
  await using notifier = await startTestNotifier({
    receiver,
    backoffSeconds: [0.02],
    alertEmail: (accountId) => Promise.resolve(`${accountId}@vendor.example`),
    sendMail: createMailer(mailbox.url, 'alerts@licensing.example'),
  })
  const { id } = await notifier.register(receiver.url())
  const events = await notifier.happen(3)
  await eventually(() => expect(mailbox.mails.length).toBeGreaterThan(0))
  const disabled = () => mailbox.mails.filter(({ text }) => text.includes('has been disabled'))
  await eventually(() => expect(disabled()).toHaveLength(1))
  const [mail] = disabled()
  expect(mail!.to).toEqual([`${notifier.of.accountId}@vendor.example`])
  expect(mail!.text).toContain('From: alerts@licensing.example')
  expect(mail!.subject).toContain('Webhook endpoint disabled')
  expect(mail!.text).toContain(id)
  expect(mail!.text).toContain('status 418')
  expect(events.some((event) => mail!.text.includes(event.id))).toBe(true)

  // The sixth failure had already caused another alert.
  await eventually(async () => expect(await mailed(notifier)).toHaveLength(2))
  const kinds = (await alertsOf(notifier)).map(({ kind }) => kind)
  expect(kinds.toSorted()).toEqual(['endpoint_disabled', 'endpoint_failing'])
  expect(mailbox.mails.length).toBeLessThanOrEqual(2)
  const [alert] = (await alertsOf(notifier)).filter(({ kind }) => kind === 'endpoint_disabled')
  expect(alert).toMatchObject({ applicationId: notifier.of.applicationId, endpointId: id })
  expect(alert!.detail).toContain('status 418')
})

test('an alert of another service is mailed and is not listed as an event', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await startTestNotifier({
    alertEmail: () => Promise.resolve('vendor@example.com'),
    sendMail: createMailer(mailbox.url, 'alerts@licensing.example'),
  })
  const alert = givenEvent({
    ...notifier.of,
    payload: { case: 'vendorAlert', value: { subject: 'A refund failed', text: 'Refund re_1 failed.' } },
  })
  await publish(notifier, [alert], { source: 'billing' })
  await publish(notifier, [givenEvent({ ...notifier.of, payload: alert.payload })], {
    source: 'billing',
  })
  await eventually(async () => expect(await mailed(notifier)).toHaveLength(2))
  const texts = mailbox.mails.map(({ text }) => text).join('')
  expect(texts.split('Refund re_1 failed.')).toHaveLength(3)
  const events = await notifier.calls.listEvents({ accountId: notifier.of.accountId, after: 0n, limit: 0 })
  expect(events.envelopes).toEqual([])
})

test('an alert is retried until the mail server accepts it and the address is available', async () => {
  await using mailbox = await startMailbox()
  mailbox.refuse(1)
  let asked = 0
  await using notifier = await startTestNotifier({
    alertEmail: () => {
      asked += 1
      if (asked === 1) throw new ServiceError('unavailable', 'catalog is unavailable')
      return Promise.resolve('vendor@example.com')
    },
    sendMail: createMailer(mailbox.url, 'alerts@licensing.example'),
  })
  const payload = { case: 'vendorAlert', value: { subject: 'Subject', text: 'Text' } } as const
  await publish(notifier, [givenEvent({ ...notifier.of, payload })])
  const soon = async () => {
    await notifier.sql`update alert_mailings set next_mail_at = now() where failures > 0`
    expect(mailbox.mails).toHaveLength(1)
  }
  await eventually(soon, { intervalMs: 500 })
  expect(asked).toBeGreaterThan(2)
})

test('without an address or a mail server, an alert is completed without a mail', async () => {
  for (const sendMail of [undefined, () => Promise.reject(new Error('nothing is to be sent'))]) {
    await using notifier = await startTestNotifier({ sendMail, alertEmail: () => Promise.resolve(null) })
    const payload = { case: 'vendorAlert', value: { subject: 'Subject', text: 'Text' } } as const
    await publish(notifier, [givenEvent({ ...notifier.of, payload })])
    await eventually(async () =>
      expect(await notifier.sql`select 1 from alerts where completed_at is not null`).toHaveLength(1),
    )
    const [alert] = await alertsOf(notifier)
    expect(alert!.mailedAt).toBeUndefined()
  }
})

test('alerts are listed newest first, each once, with kind, application and text', async () => {
  await using notifier = await startTestNotifier()
  const { accountId, applicationId } = notifier.of
  const kinds = closedSets.alertKind
  const events = kinds.map((kind, i) =>
    givenEvent({
      accountId,
      applicationId: i % 2 === 0 ? applicationId : '',
      payload: { case: 'vendorAlert', value: { subject: `Alert ${i}`, text: `Text ${i}`, kind } },
    }),
  )
  const elsewhere = givenEvent({
    accountId: newId('acct'),
    applicationId,
    payload: { case: 'vendorAlert', value: { subject: 'Other', text: 'Other', kind: 'refund_reversed' } },
  })
  for (const event of [...events, elsewhere]) {
    await publish(notifier, [event], { source: 'billing' })
    const stored = () => notifier.sql`select 1 from alerts where account_id = ${event.accountId}`
    await eventually(async () =>
      expect((await stored()).length).toBe(event === elsewhere ? 1 : events.indexOf(event) + 1),
    )
  }
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
  expect(ofApplication).toHaveLength(4)
  expect(all.filter(({ applicationId: id }) => id === undefined)).toHaveLength(3)
  expect(await alertsOf(notifier, { onlyApplicationId: applicationId })).toEqual(ofApplication)
  expect(await alertsOf(notifier, { onlyApplicationId: newId('app') })).toEqual([])
})

test('an alert with an unknown kind is listed and mailed', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await startTestNotifier({
    alertEmail: () => Promise.resolve('vendor@example.com'),
    sendMail: createMailer(mailbox.url, 'alerts@licensing.example'),
  })
  const value = { subject: 'Subject', text: 'Text', kind: 'of_another_release' }
  await publish(notifier, [givenEvent({ ...notifier.of, payload: { case: 'vendorAlert', value } })])
  await eventually(async () => expect(await mailed(notifier)).toHaveLength(1))
  expect((await alertsOf(notifier))[0]).toMatchObject({ kind: 'processor_event_parked' })
})
