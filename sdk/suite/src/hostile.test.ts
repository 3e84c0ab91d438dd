import { spawnSync } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { afterAll, describe, expect, test } from 'vitest'
import { Driver, type ClientOptions } from './driver.ts'
import { languages, type Language } from './languages.ts'
import { LicensingServer } from './licensing-server.ts'

/** A call may take a little longer than its timeout, and this machine is busy. */
const patienceMs = 4_000

const end = new AsyncDisposableStack()
afterAll(() => end.disposeAsync())
const shared = new Map<Language, Driver>()
for (const language of languages) shared.set(language, end.use(await Driver.start(language)))

/** A service with one licence, a folder, and options of a client, beside the driver that all tests of a language share. */
async function given(language: Language) {
  const service = end.use(await LicensingServer.start())
  const { path: folder } = end.use(await makeTemporaryFolder())
  const options = {
    base_url: service.baseUrl,
    app_id: service.appId,
    root_key: service.rootKey,
    licence_key: service.issue(),
    fingerprint: 'machine-1',
    host: 'app.example.com',
    product_version: '4.2.0',
    timeout_ms: 20_000,
    background: false,
  } satisfies ClientOptions
  return { service, folder, options, driver: shared.get(language)! }
}

const startAnother = async (language: Language, wrapper: readonly string[] = []) =>
  end.use(await Driver.start(language, wrapper))

const flood = Buffer.alloc(65_536, 'x')
const answers: [title: string, answer: (request: IncomingMessage, response: ServerResponse) => void][] = [
  ['text that never ends', (_, response) => sendForever(response)],
  ['JSON of 3 MiB', (_, response) => send(response, JSON.stringify({ token: 'x'.repeat(3 * 1024 * 1024) }))],
  [
    'a redirect',
    ({ url, headers }, response) =>
      response
        .writeHead(url === '/elsewhere' ? 200 : 307, { location: `http://${headers.host}/elsewhere` })
        .end('{}'),
  ],
  ['a page', (_, response) => send(response, '<!doctype html><title>Log in</title>')],
  ['a list', (_, response) => send(response, '[]')],
  ['deep nesting', (_, response) => send(response, '['.repeat(1_000_000))],
]

/** Answers that do not come in time. */
const delays: [title: string, answer: (request: IncomingMessage, response: ServerResponse) => void][] = [
  ['nothing', () => undefined],
  ['half an answer', (_, response) => void response.writeHead(200).write('{"token":')],
  [
    'a blank now and then',
    (_, response) => {
      response.writeHead(200)
      const timer = setInterval(() => response.write(' '), 50)
      response.on('close', () => clearInterval(timer))
    },
  ],
]

function send(response: ServerResponse, text: string): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(text)
}

function sendForever(response: ServerResponse): void {
  let sent = 0
  const more = () => {
    while (!response.destroyed && response.write(flood)) {
      sent += flood.length
      if (sent > 64 * 1024 * 1024) throw new Error('the client reads an answer without end')
    }
  }
  response.writeHead(200, { 'content-type': 'application/json' }).on('drain', more)
  more()
}

describe.concurrent.each(languages)('the SDK of $name', (language) => {
  test.each(answers)('keeps its token if a server answers %s', async (_, answer) => {
    const { service, options, driver } = await given(language)
    const [active, fresh] = [await driver.open(options), await driver.open(options)]
    await active.call('activate')
    service.instead = answer
    const problem = 'unexpected_answer'
    expect(await fresh.call('activate')).toMatchObject({ status: 'unlicensed', reason: problem })
    expect(await active.call('refresh')).toMatchObject({ status: 'licensed', problem })
    expect(service.requests.filter((request) => request.includes('elsewhere'))).toEqual([])
  })

  test.each(delays)('ends its call in time if a server sends %s', async (_, answer) => {
    const { service, options, driver } = await given(language)
    const timeout_ms = 1_000
    const client = await driver.open({ ...options, timeout_ms })
    service.instead = answer
    const begun = performance.now()
    expect(await client.call('activate')).toMatchObject({ status: 'unlicensed', reason: 'timeout' })
    expect(performance.now() - begun).toBeLessThan(timeout_ms + patienceMs)
  })

  test('answers at once after it was closed, also to a call that is waiting', async () => {
    const { service, options, driver } = await given(language)
    service.instead = () => undefined
    const client = await driver.open({ ...options, timeout_ms: 60_000 })
    const activated = client.call('activate')
    await eventually(() => expect(service.requests).toHaveLength(1))
    await client.close()
    expect(await activated).toMatchObject({ usable: false })
    expect(await client.call('activate')).toMatchObject({ usable: false })
    expect(service.requests).toHaveLength(1)
  })

  test('reads an answer as UTF-8, whatever character set it names', async () => {
    const { service, options, driver } = await given(language)
    const reason = 'geschlossen – Ü'
    service.instead = {
      status: 403,
      body: { code: 'licence_refused', reason, detail: 'no' },
      headers: { 'content-type': 'application/json; charset=utf-16' },
    }
    const client = await driver.open(options)
    expect(await client.call('activate')).toMatchObject({ status: 'refused', reason })
  })

  test('sends no request before Retry-After has passed, by the clock of the server', async () => {
    const { service, options, driver } = await given(language)
    const headers = { date: 'Sat, 01 Feb 2020 10:00:00 GMT', 'retry-after': 'Sat, 01 Feb 2020 10:10:00 GMT' }
    service.instead = { status: 503, headers }
    const client = await driver.open(options)
    expect(await client.call('activate')).toMatchObject({ reason: 'unavailable' })
    service.instead = null
    expect(await client.call('activate')).toMatchObject({ reason: 'unavailable' })
    expect(service.requests).toHaveLength(1)
  })

  test('starts from an empty store if the file has half a text, and activates again', async () => {
    const { folder, options, driver } = await given(language)
    const stored = { ...options, store_file: join(folder, 'licence.json') }
    const { activation_id } = await (await driver.open(stored)).call('activate')
    const text = await readFile(stored.store_file)
    for (const part of [text.subarray(0, text.length / 2), Buffer.alloc(text.length), Buffer.from([255])]) {
      await writeFile(stored.store_file, part)
      const client = await driver.open(stored)
      expect(await client.call('ready')).toMatchObject({ reason: 'store_corrupt' })
      expect(await client.call('activate')).toMatchObject({ status: 'licensed', activation_id })
    }
  })

  test('works in memory if its file cannot exist', async () => {
    const { folder, options, driver } = await given(language)
    await writeFile(join(folder, 'plain'), '')
    const client = await driver.open({ ...options, store_file: join(folder, 'plain', 'licence.json') })
    expect(await client.call('activate')).toMatchObject({ status: 'licensed', problem: 'store_failed' })
    expect(await client.value('limit', 'max_projects')).toBe(25)
  })

  const canMount = spawnSync('unshare', ['--mount', '--map-root-user', 'true']).status === 0
  // The folder is `$0`.
  const disks: [title: string, mount: string, problem: string | null][] = [
    [
      'a full disk',
      'mount -t tmpfs -o size=16k tmpfs "$0/d" && { cat /dev/zero > "$0/d/all" 2>&-; true; }',
      'store_failed',
    ],
    ['a read-only disk', 'mount -t tmpfs -o ro tmpfs "$0/d"', 'store_failed'],
    [
      'a single file that is mounted',
      'touch "$0/file" "$0/d/licence.json" && mount --bind "$0/file" "$0/d/licence.json"',
      null,
    ],
  ]
  test.skipIf(!canMount).each(disks)('activates with its store on %s', async (_, mount, problem) => {
    const { folder, options, driver } = await given(language)
    const shell = ['sh', '-c', `mkdir "$0/d" && ${mount} && exec "$@"`, folder]
    const confined = await startAnother(language, ['unshare', '--mount', '--map-root-user', ...shell])
    const client = await confined.open({ ...options, store_file: join(folder, 'd', 'licence.json') })
    const { activation_id, ...activated } = await client.call('activate')
    expect(activated).toMatchObject({ status: 'licensed', problem })
    expect(await client.value('has_feature', 'export_pdf')).toBe(true)
    expect(await client.call('refresh')).toMatchObject({ status: 'licensed', problem })
    if (problem !== null) return
    const outside = await driver.open({ ...options, store_file: join(folder, 'file') })
    expect(await outside.call('ready')).toMatchObject({ status: 'licensed', activation_id })
  })

  test('shares a store and a fingerprint with another process of the product', async () => {
    const { service, folder, options, driver } = await given(language)
    const drivers = [driver, await startAnother(language)]
    const file = join(folder, 'volume', 'id')
    const fingerprints = await Promise.all(
      [...drivers, ...drivers].map((each) => each.fingerprint({ app_id: 'app_1', file })),
    )
    expect(new Set(fingerprints).size).toBe(1)
    expect(await readdir(join(folder, 'volume'))).toEqual(['id'])

    const stored = { ...options, store_file: join(folder, 'data', 'licence.json') }
    const clients = await Promise.all(drivers.map((each) => each.open(stored)))
    const [one, other] = clients as [(typeof clients)[0], (typeof clients)[0]]
    const states = await Promise.all(clients.map((each) => each.call('activate')))
    expect(new Set(states.map(({ activation_id }) => activation_id)).size).toBe(1)
    for (let round = 0; round < 5; round++) {
      const refreshed = await Promise.all(clients.map((each) => each.call('refresh')))
      expect(refreshed).toMatchObject([{ status: 'licensed' }, { status: 'licensed' }])
    }
    expect(await readdir(join(folder, 'data'))).toEqual(['licence.json'])
    await one.call('deactivate')
    expect(await other.call('ready')).toMatchObject({ status: 'unlicensed', reason: 'deactivated' })
    await other.call('activate')
    service.revoke(options.licence_key)
    expect(await other.call('check')).toMatchObject({ status: 'refused', reason: 'revoked' })
    expect(await one.call('ready')).toMatchObject({ status: 'refused', reason: 'revoked' })
  })

  test('counts time on if its clock jumps, and a token of the service sets it right', async () => {
    const { options, driver } = await given(language)
    const client = await driver.open(options)
    const { expires_at } = await client.call('activate')
    await client.setClock(new Date(Date.parse(expires_at!) + 60_000).toISOString())
    expect(await client.call('state')).toMatchObject({ status: 'lapsed', reason: 'token_expired' })
    expect(await client.value('has_feature', 'export_pdf')).toBe(false)
    await client.setClock(null)
    expect(await client.call('state')).toMatchObject({ status: 'lapsed', clock_turned_back: true })
    expect(await client.call('refresh')).toMatchObject({ status: 'licensed', clock_turned_back: false })
  })

  test('renews its licence in the background, and lets its process end', async () => {
    const { service, options } = await given(language)
    const driver = await startAnother(language)
    service.tokenLifeSeconds = 4
    const client = await driver.open({ ...options, background: true })
    const { expires_at } = await client.call('activate')
    await eventually(async () => expect((await client.call('state')).expires_at).not.toBe(expires_at))
    const current = { status: 'licensed', revocations: 'current' }
    await eventually(async () => expect(await client.call('state')).toMatchObject(current))
    const begun = performance.now()
    expect(await driver.end()).toBe(0)
    expect(performance.now() - begun).toBeLessThan(patienceMs)
  })

  test('exits with the code of its product while a call waits', async () => {
    const { service, folder, options } = await given(language)
    const driver = await startAnother(language)
    const store_file = join(folder, 'licence.json')
    const client = await driver.open({ ...options, store_file, timeout_ms: 60_000, background: true })
    service.instead = () => undefined
    // Its result does not matter: the end of the process may cancel the call.
    const waiting = client.call('activate').catch(() => undefined)
    await eventually(() => expect(service.requests).toHaveLength(1))
    expect(await driver.exit(7), driver.errors).toBe(7)
    await waiting
  })

  test.each([null, 'lrk_', 'lrk_AAAA', { of: [] }, { of: ['unpinned', 'lrk_x'] }])(
    'creates no client with the root key %j',
    async (given_key) => {
      const { options, driver } = await given(language)
      const root_key = typeof given_key === 'string' || given_key === null ? given_key : given_key.of
      const answer = await driver.ask('new', { options: { ...options, root_key: root_key as string } })
      expect(answer).toHaveProperty('threw')
    },
  )
})
