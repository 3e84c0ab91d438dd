import { fullTest } from '@licensing/test-support/drawn'
import { verifyWebhook } from '@licensing/sdk/webhooks'
import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CHECKOUT } from '@licensing/local-servers/services'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { commandLine, settingsOf, startCommand, startOnTerminal, useTerminal } from './command-line.ts'
import { givenEndpoint } from './delivery.ts'
import { givenReceiver, givenStack, givenVendor } from './vendor.ts'

const receiver = await givenReceiver()
const stack = await givenStack({ receiver })
const vendor = await givenVendor(stack)
const { id: planId } = await vendor.plan()
const { key: readKey } = await vendor.keyWith({ scopes: ['read'] })
const settings = { LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: readKey }
const [gateway] = stack.processes.gateway

interface Received {
  headers: IncomingHttpHeaders
  body: Buffer
}

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
  startCommand(settings, 'listen', '--forward-to', url, ...more)
const listenOnTerminal = (url: string, ...more: string[]) =>
  useTerminal(settings, 'listen', '--forward-to', url, ...more)
const latest = async () =>
  (await stack.api.get<{ next_after: number }>('/v1/events?after=latest')).body.next_after
const linesOf = (text: string) => text.split('\n').filter((line) => line !== '')

async function suspendOne(): Promise<string> {
  const { id } = await vendor.issue(planId)
  await vendor.verb('suspend', id)
  return id
}

/** Suspends licences and waits until their events are recorded. @returns the sequence before them */
async function recorded(count: number): Promise<number> {
  const before = await latest()
  for (let each = 0; each < count; each += 1) await suspendOne()
  await eventually(async () => expect(await latest()).toBe(before + count))
  return before
}

test('a forwarded request has the bytes and headers of a delivery, and is signed with the printed secret', async () => {
  const endpoint = await givenEndpoint(vendor, receiver, 'licence.suspended')
  await using backend = await startBackend()
  const before = await recorded(1)
  await using command = listen(backend.url, '--after', String(before))
  await eventually(() => expect(backend.received).toHaveLength(1))
  const [delivery] = await endpoint.next(1)
  const [forwarded] = backend.received
  expect(forwarded!.body).toEqual(delivery!.body)
  const own = ['host', 'connection', 'webhook-signature']
  const comparable = ({ headers }: Pick<Received, 'headers'>) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => !own.includes(name)))
  expect(comparable(forwarded!)).toEqual(comparable(delivery!))
  expect(forwarded!.headers['webhook-attempt']).toBe('1')
  await eventually(() => expect(linesOf(command.stdout())).toHaveLength(2))
  const [first, second] = linesOf(command.stdout())
  const secret = /^secret (whsec_[\w-]{43})$/.exec(first!)![1]!
  expect(second).toBe(`${before + 1} licence.suspended 204`)
  const signature = String(forwarded!.headers['webhook-signature'])
  const event = await verifyWebhook(forwarded!.body.toString(), signature, secret)
  expect(event).toMatchObject({ sequence: before + 1, type: 'licence.suspended' })
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
  expect(secret).toEqual({ secret: expect.stringMatching(/^whsec_/) as string })
  for (const line of lines) {
    const type = expect.stringMatching(/^licence\.(suspended|retired)$/) as string
    expect(line).toEqual({ sequence: expect.any(Number) as number, type, status: 204 })
  }
})

test('if a receiver refuses, redirects or does not answer, one line is printed and the event is not sent again', async () => {
  await using backend = await startBackend((count) => [500, 302, undefined, 200][count - 1])
  const before = await recorded(4)
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

/** Presses Ctrl-C on the terminal of a command and expects it to end at once. */
async function interrupted(command: ReturnType<typeof startOnTerminal>) {
  const start = performance.now()
  command.type('\u0003')
  const { code, stdout } = await command.finished
  expect(code).toBe(0)
  // It waits 5 s for a receiver and 15 s for the gateway.
  expect(performance.now() - start).toBeLessThan(4_000)
  return stdout
}

fullTest(
  'while the gateway is unavailable it says so, also ends at once with Ctrl-C, and afterwards continues without a gap',
  async () => {
    await using backend = await startBackend()
    const before = await recorded(1)
    await using command = listen(backend.url, '--after', String(before))
    await using onTerminal = listenOnTerminal('http://127.0.0.1:9')
    await eventually(() => expect(linesOf(command.stdout())).toHaveLength(2))
    await eventually(() => expect(onTerminal.stdout()).toContain('secret whsec_'))
    await gateway!.kill()
    try {
      const unavailable = `the licensing service at ${stack.gatewayUrl} is unavailable (`
      await eventually(() => expect(command.stderr()).toContain(unavailable))
      await eventually(() => expect(onTerminal.stdout()).toContain('is unavailable'))
      await interrupted(onTerminal)
    } finally {
      // Other tests need the gateway.
      await gateway!.start()
    }
    await recorded(2)
    await eventually(() => expect(linesOf(command.stdout())).toHaveLength(4))
    const sequences = [1, 2, 3].map((more) => String(before + more))
    expect(linesOf(command.stdout()).map((line) => line.split(' ')[0])).toEqual(['secret', ...sequences])
    expect(linesOf(command.stderr())).toHaveLength(2)
  },
)

test('Ctrl-C ends it at once with exit code 0 while the receiver or the gateway does not answer', async () => {
  await using silent = await startBackend(() => undefined)
  const before = await recorded(1)
  await using command = listenOnTerminal(silent.url, '--after', String(before))
  await eventually(() => expect(silent.received).toHaveLength(1))
  expect(await interrupted(command)).not.toContain('licence.suspended')

  const LICENSING_URL = new URL(silent.url).origin
  const parameters = ['listen', '--forward-to', 'http://127.0.0.1:9']
  await using waiting = useTerminal({ ...settings, LICENSING_URL }, ...parameters)
  await eventually(() => expect(silent.received).toHaveLength(2))
  await interrupted(waiting)
})

test('Ctrl-C ends it at once with exit code 0 if npm started it', async () => {
  const npm = `npm --prefix ${CHECKOUT} run --ignore-scripts --silent cli -- listen --forward-to http://127.0.0.1:9`
  const environment = { ...settings, HOME: process.env['HOME'] ?? '/' }
  await using command = startOnTerminal(environment, ...npm.split(' '))
  await eventually(() => expect(command.stdout()).toContain('secret whsec_'))
  await interrupted(command)
})

test('a refused key ends it with exit code 1, wrong arguments with 2', async () => {
  const refused = commandLine({ ...settingsOf(stack), LICENSING_API_KEY: 'lsk_wrong' })
  const { code, stderr } = await refused.text('listen --forward-to http://127.0.0.1:9')
  expect([code, stderr]).toEqual([1, expect.stringContaining('401')])
  for (const wrong of [
    '',
    ' --forward-to ftp://127.0.0.1',
    ' --forward-to http://127.0.0.1:9 --events licence.gone',
    ' --forward-to http://127.0.0.1:9 --after -1',
  ]) {
    expect(await refused.text(`listen${wrong}`)).toMatchObject({ code: 2, stdout: '' })
  }
})
