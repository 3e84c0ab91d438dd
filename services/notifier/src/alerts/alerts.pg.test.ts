import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { ServiceError } from '@licensing/grpc/errors'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { SMTPServer } from 'smtp-server'
import { expect, test } from 'vitest'
import { givenEvent, publish } from '../testing/events.ts'
import { startTestNotifier } from '../testing/notifier.ts'
import { createMailer } from './mail.ts'

interface Mailbox extends AsyncDisposable {
  url: string
  mails: { to: string[]; text: string }[]
  /** How many mails are refused before one is taken. */
  refuse(count: number): void
}

async function startMailbox(): Promise<Mailbox> {
  const mails: Mailbox['mails'] = []
  let refusals = 0
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        refusals -= 1
        if (refusals >= 0) return done(new Error('mailbox is busy'))
        const to = session.envelope.rcptTo.map(({ address }) => address)
        mails.push({ to, text: Buffer.concat(chunks).toString().replaceAll('=\r\n', '') })
        done()
      })
    },
  })
  const listening = server.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  const { port } = listening.address() as AddressInfo
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails,
    refuse: (count) => (refusals = count),
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

test('an endpoint that exhausts its retries has one mail sent to the address of the account', async () => {
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
  await eventually(() => expect(mailbox.mails.length).toBeGreaterThan(0), { timeoutMs: 20_000 })
  const [mail] = mailbox.mails
  expect(mail!.to).toEqual([`${notifier.of.accountId}@vendor.example`])
  expect(mail!.text).toContain('From: alerts@licensing.example')
  expect(mail!.text).toMatch(/^Subject: Webhook endpoint disabled: localhost:\d+/m)
  expect(mail!.text).toContain(id)
  expect(mail!.text).toContain('status 418')
  expect(events.some((event) => mail!.text.includes(event.id))).toBe(true)

  await eventually(async () =>
    expect(await notifier.sql`select 1 from alerts where sent_at is not null`).toHaveLength(1),
  )
  expect(await notifier.sql`select 1 from alerts`).toHaveLength(1)
  expect(mailbox.mails).toHaveLength(1)
})

test('an alert of another service is mailed, and is no event of the vendor', async () => {
  await using mailbox = await startMailbox()
  await using notifier = await startTestNotifier({
    alertEmail: () => Promise.resolve('vendor@example.com'),
    sendMail: createMailer(mailbox.url, 'alerts@licensing.example'),
  })
  const alert = givenEvent({
    ...notifier.of,
    payload: { case: 'vendorAlert', value: { subject: 'A refund failed', text: 'Refund re_1 failed.' } },
  })
  await publish(notifier.nats, [alert], { source: 'billing' })
  await publish(notifier.nats, [alert], { source: 'billing', repeat: true })
  await publish(notifier.nats, [givenEvent({ ...notifier.of, payload: alert.payload })], {
    source: 'billing',
  })
  await eventually(() => expect(mailbox.mails).toHaveLength(2))
  expect(mailbox.mails[0]!.text).toContain('Subject: A refund failed')
  expect(mailbox.mails[0]!.text).toContain('Refund re_1 failed.')
  const events = await notifier.calls.listEvents({ accountId: notifier.of.accountId, after: 0n, limit: 0 })
  expect(events.envelopes).toEqual([])
})

test('an alert is tried again until the mail server takes it and the address can be asked for', async () => {
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
  await publish(notifier.nats, [givenEvent({ ...notifier.of, payload })])
  const soon = async () => {
    await notifier.sql`update alerts set next_try_at = now() where sent_at is null and tries > 0`
    expect(mailbox.mails).toHaveLength(1)
  }
  await eventually(soon, { timeoutMs: 25_000, intervalMs: 500 })
  expect(asked).toBeGreaterThan(2)
})

test('without an address, or without a mail server, an alert is done with', async () => {
  for (const sendMail of [undefined, () => Promise.reject(new Error('nothing is to be sent'))]) {
    await using notifier = await startTestNotifier({ sendMail, alertEmail: () => Promise.resolve(null) })
    const payload = { case: 'vendorAlert', value: { subject: 'Subject', text: 'Text' } } as const
    await publish(notifier.nats, [givenEvent({ ...notifier.of, payload })])
    await eventually(async () =>
      expect(await notifier.sql`select 1 from alerts where sent_at is not null`).toHaveLength(1),
    )
  }
})
