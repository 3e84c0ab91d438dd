import { verifyWebhook } from '@licensing/sdk/webhooks'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CHECKOUT } from '@licensing/local-servers/services'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand, settingsOf, startCommand, startOnTerminal, useTerminal } from './command-line.ts'
import { givenVendor } from './vendor.ts'
import type { Vendor } from './vendor.ts'

interface Received {
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

let receiver: HttpsReceiver
let stack: Stack
let vendor: Vendor
let planId: string
let readKey: string

beforeAll(async () => {
  receiver = await startHttpsReceiver()
  stack = await startStack({ receiver })
  vendor = await givenVendor(stack)
  planId = (await vendor.plan()).id
  const made = await stack.api.post<{ key: string }>('/v1/api-keys', {
    body: { name: 'listen', scopes: ['read'] },
  })
  readKey = made.body.key
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

/** A backend with plain http, as on a developer's machine. It answers its n-th request with the status of `statusOf`; undefined: no answer. */
async function startBackend(statusOf: (count: number) => number | undefined = () => 204) {
  const received: Received[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks) })
      const status = statusOf(received.length)
      if (status !== undefined) response.writeHead(status, { location: '/elsewhere' }).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?a=b`,
    received,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const listen = (url: string, ...more: string[]) =>
  startCommand(
    { LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: readKey },
    'listen',
    '--forward-to',
    url,
    ...more,
  )
const latest = async () =>
  (await stack.api.get<{ next_after: number }>('/v1/events?after=latest')).body.next_after
const linesOf = (text: string) => text.split('\n').filter((line) => line !== '')
const suspendOne = async () => {
  const { id } = await vendor.issue(planId)
  await vendor.verb('suspend', id)
  return id
}
/** Waits until the sequence is `more` higher than `before`. */
const recorded = (before: number, more: number) =>
  eventually(async () => expect(await latest()).toBe(before + more))

test('a forwarded request has the bytes and headers of a delivery, and is signed with the printed secret', async () => {
  await stack.api.post(`${vendor.app}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: 'licence.suspended' },
  })
  await using backend = await startBackend()
  const before = await latest()
  const id = await suspendOne()
  await recorded(before, 1)
  await using command = listen(backend.url, '--after', String(before))
  await eventually(() => expect(backend.received).toHaveLength(1))
  const delivery = await eventually(() => {
    const one = receiver.requests.find(({ body }) => body.includes(id))
    expect(one).toBeDefined()
    return one!
  })
  const [forwarded] = backend.received
  expect(forwarded!.body).toEqual(delivery.body)
  const comparable = ({ headers }: Pick<Received, 'headers'>) =>
    Object.fromEntries(
      Object.entries(headers).filter(([name]) => !['host', 'connection', 'webhook-signature'].includes(name)),
    )
  expect(comparable(forwarded!)).toEqual(comparable(delivery))
  expect(forwarded!.headers['webhook-attempt']).toBe('1')
  await eventually(() => expect(linesOf(command.stdout())).toHaveLength(2))
  const [first, second] = linesOf(command.stdout())
  const secret = /^secret (whsec_[\w-]{43})$/.exec(first!)![1]!
  expect(second).toBe(`${before + 1} licence.suspended 204`)
  const event = await verifyWebhook(
    forwarded!.body.toString(),
    String(forwarded!.headers['webhook-signature']),
    secret,
  )
  expect(event).toMatchObject({ sequence: before + 1, data: { object: { licence_id: id } } })
  expect(await command.stop()).toMatchObject({ code: 0, stderr: '' })
})

test('without --after only new events of the given types are forwarded', async () => {
  await using backend = await startBackend()
  await suspendOne()
  await using command = listen(backend.url, '--events', 'licence.suspended, licence.retired', '--json')
  await eventually(() => expect(linesOf(command.stdout())).toHaveLength(1))
  // The test sees that the command has read the latest sequence only when it forwards an event.
  const id = await eventually(async () => {
    const suspended = await suspendOne()
    expect(backend.received.length).toBeGreaterThan(0)
    return suspended
  })
  await vendor.verb('reactivate', id)
  await vendor.verb('retire', id)
  await eventually(() => expect(command.stdout()).toContain('licence.retired'))
  const [secret, ...lines] = linesOf(command.stdout()).map((line) => JSON.parse(line) as object)
  expect(secret).toEqual({ secret: expect.stringMatching(/^whsec_/) })
  for (const line of lines) {
    expect(line).toEqual({
      sequence: expect.any(Number),
      type: expect.stringMatching(/^licence\.(suspended|retired)$/),
      status: 204,
    })
  }
})

test('if a receiver refuses, redirects or does not answer, one line is printed and the event is not sent again', async () => {
  await using backend = await startBackend((count) => [500, 302, undefined, 200][count - 1])
  const before = await latest()
  for (let count = 0; count < 4; count++) await suspendOne()
  await recorded(before, 4)
  await using command = listen(backend.url, '--after', String(before))
  await eventually(() => expect(linesOf(command.stdout())).toHaveLength(5))
  expect(linesOf(command.stdout()).slice(1)).toEqual([
    `${before + 1} licence.suspended 500`,
    `${before + 2} licence.suspended 302`,
    `${before + 3} licence.suspended no answer within 5 s`,
    `${before + 4} licence.suspended 200`,
  ])
  expect(backend.received).toHaveLength(4)
})

test('while the gateway is unavailable it says so, and afterwards continues without a gap', async () => {
  await using backend = await startBackend()
  const before = await latest()
  await suspendOne()
  await recorded(before, 1)
  await using command = listen(backend.url, '--after', String(before))
  await eventually(() => expect(linesOf(command.stdout())).toHaveLength(2))
  const [gateway] = stack.processes.gateway
  await gateway!.kill()
  await eventually(() => {
    expect(command.stderr()).toContain(`the licensing service at ${stack.gatewayUrl} is unavailable (`)
  })
  await gateway!.start()
  await suspendOne()
  await suspendOne()
  await eventually(() => expect(linesOf(command.stdout())).toHaveLength(4))
  expect(linesOf(command.stdout()).map((line) => line.split(' ')[0])).toEqual([
    'secret',
    ...[1, 2, 3].map((more) => String(before + more)),
  ])
  expect(linesOf(command.stderr())).toHaveLength(2)
})

/** Seconds. It is less than the 5 s that the command waits for a receiver, and the 15 s for the gateway. */
const atOnce = 4

/** Presses Ctrl-C on the terminal of a command. @returns its exit code and how long it took */
async function interrupt(command: ReturnType<typeof startOnTerminal>) {
  const start = performance.now()
  command.type('\u0003')
  const { code, stdout } = await command.finished
  return { code, stdout, seconds: (performance.now() - start) / 1000 }
}

const listenOnTerminal = (url: string, ...more: string[]) =>
  useTerminal(
    { LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: readKey },
    'listen',
    '--forward-to',
    url,
    ...more,
  )

test('Ctrl-C ends it at once with exit code 0', async () => {
  await using backend = await startBackend()
  await using command = listenOnTerminal(backend.url)
  await eventually(() => expect(command.stdout()).toContain('secret whsec_'))
  const { code, seconds } = await interrupt(command)
  expect(code).toBe(0)
  expect(seconds).toBeLessThan(atOnce)
})

test('Ctrl-C ends it at once with exit code 0 while the receiver does not answer', async () => {
  await using backend = await startBackend(() => undefined)
  const before = await latest()
  await suspendOne()
  await recorded(before, 1)
  await using command = listenOnTerminal(backend.url, '--after', String(before))
  await eventually(() => expect(backend.received).toHaveLength(1))
  const { code, stdout, seconds } = await interrupt(command)
  expect(code).toBe(0)
  expect(seconds).toBeLessThan(atOnce)
  expect(stdout).not.toContain('licence.suspended')
})

test('Ctrl-C ends it at once with exit code 0 if npm started it', async () => {
  await using backend = await startBackend()
  await using command = startOnTerminal(
    { LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: readKey, HOME: process.env['HOME'] ?? '/' },
    'npm',
    '--prefix',
    CHECKOUT,
    'run',
    '--ignore-scripts',
    '--silent',
    'cli',
    '--',
    'listen',
    '--forward-to',
    backend.url,
  )
  await eventually(() => expect(command.stdout()).toContain('secret whsec_'))
  const { code, seconds } = await interrupt(command)
  expect(code).toBe(0)
  expect(seconds).toBeLessThan(atOnce)
})

test('Ctrl-C ends it at once with exit code 0 while the gateway is unavailable or does not answer', async () => {
  const [gateway] = stack.processes.gateway
  await using command = listenOnTerminal('http://127.0.0.1:9')
  await eventually(() => expect(command.stdout()).toContain('secret whsec_'))
  await gateway!.kill()
  let unavailable
  try {
    await eventually(() => expect(command.stdout()).toContain('is unavailable'))
    unavailable = await interrupt(command)
  } finally {
    // Other tests need the gateway.
    await gateway!.start()
  }
  expect(unavailable.code).toBe(0)
  expect(unavailable.seconds).toBeLessThan(atOnce)
  await using silent = await startBackend(() => undefined)
  const LICENSING_URL = new URL(silent.url).origin
  await using waiting = useTerminal(
    { LICENSING_URL, LICENSING_API_KEY: readKey },
    'listen',
    '--forward-to',
    'http://127.0.0.1:9',
  )
  await eventually(() => expect(silent.received).toHaveLength(1))
  const unanswered = await interrupt(waiting)
  expect(unanswered.code).toBe(0)
  expect(unanswered.seconds).toBeLessThan(atOnce)
})

test('a refused key ends it with exit code 1, wrong arguments with 2', async () => {
  const settings = settingsOf(stack)
  const refused = await runCommand(
    { ...settings, LICENSING_API_KEY: 'lsk_wrong' },
    'listen',
    '--forward-to',
    'http://127.0.0.1:9',
  )
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain('401')
  for (const wrong of [
    [],
    ['--forward-to', 'ftp://127.0.0.1'],
    ['--forward-to', 'http://127.0.0.1:9', '--events', 'licence.gone'],
    ['--forward-to', 'http://127.0.0.1:9', '--after', '-1'],
  ]) {
    const { code, stdout } = await runCommand(settings, 'listen', ...wrong)
    expect([code, stdout]).toEqual([2, ''])
  }
})
