import { readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { drawing, drawn } from '@licensing/test-support/drawn'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { afterAll, describe, expect, test } from 'vitest'
import { Driver, type ClientOptions } from './driver.ts'
import { languages, type Language } from './languages.ts'
import { LicensingServer } from './licensing-server.ts'

const end = new AsyncDisposableStack()
afterAll(() => end.disposeAsync())
const service = end.use(await LicensingServer.start())
const { path: folder } = end.use(await makeTemporaryFolder())
const drivers = new Map<Language, Driver>()
for (const language of languages) drivers.set(language, end.use(await Driver.start(language)))

const all = [...drivers.values()]

const allPairs = languages.flatMap((first) =>
  languages.map((second) => [first.name, second.name, first, second] as const),
)
const named = drawn(allPairs, 10)

let stores = 0
const givenOptions = () =>
  ({
    base_url: service.baseUrl,
    app_id: service.appId,
    root_key: service.rootKey,
    licence_key: service.issue(),
    fingerprint: 'machine-1',
    host: 'büro.example.com',
    product_version: '4.2.0',
    store_file: join(folder, `store-${++stores}`, 'licence.json'),
    timeout_ms: 20_000,
    background: false,
  }) satisfies ClientOptions

describe(`a product that moves from one language to another (${drawing})`, () => {
  test.each(named)(
    'from %s to %s keeps its activation, its key and its list',
    async (_, __, first, second) => {
      const options = givenOptions()
      const before = await drivers.get(first)!.open(options)
      const { activation_id, expires_at } = await before.call('activate')
      const checked = await before.call('check')
      expect(checked).toMatchObject({ status: 'licensed', revocations: 'current', problem: null })

      const { licence_key, ...withoutKey } = options
      const after = await drivers.get(second)!.open({ ...withoutKey, base_url: 'http://127.0.0.1:9' })
      const kept = { status: 'licensed', activation_id, expires_at, revocations: 'current', problem: null }
      expect(await after.call('activate')).toMatchObject(kept)
      expect(await after.value('limit', 'max_projects')).toBe(25)
      expect(await after.createOfflineRequest()).toMatchObject({ licence_key })
      expect(await before.call('ready')).toMatchObject(kept)
    },
  )

  test.each(named)('from %s to %s writes its store byte for byte the same', async (_, __, first, second) => {
    const options = givenOptions()
    const before = await drivers.get(first)!.open(options)
    const { expires_at } = await before.call('activate')
    await before.call('check')
    const after = await drivers.get(second)!.open(options)
    const at = new Date(Date.parse(expires_at!) - 3_600_000).toISOString()
    for (const client of [before, after]) await client.setClock(at)
    await after.call('ready')
    const text = await readFile(options.store_file, 'utf8')
    await before.call('ready')
    expect(await readFile(options.store_file, 'utf8')).toBe(text)
    expect(JSON.stringify(JSON.parse(text))).toBe(text)
  })

  test.each(named)('from %s to %s has the same fingerprint', async (_, __, first, second) => {
    const file = join(folder, `id-${++stores}`, 'id')
    for (const argument of [{ app_id: 'app_1' }, { app_id: 'app_1', file }]) {
      const fingerprint = await drivers.get(first)!.fingerprint(argument)
      expect(fingerprint).toMatch(/^[0-9a-f]{64}$/)
      expect(await drivers.get(second)!.fingerprint(argument)).toBe(fingerprint)
    }
  })
})

test('a file with an id is read in the same way in each language', async () => {
  const contents = [
    'machine-7',
    ' machine-7\r\n',
    '\n\nmachine-7\nother',
    '\0\0machine-7',
    '\rmachine-7',
    'é\u00A0\n',
  ]
  for (const content of contents) {
    const file = join(folder, `id-${++stores}`)
    await writeFile(file, content)
    const given = await Promise.all(
      all.map(async (driver) => [driver.language.name, await driver.fingerprint({ app_id: 'app_1', file })]),
    )
    expect(given).toEqual(given.map(([name]) => [name, given[0]?.[1]]))
  }
})

test('processes of all languages on one store lose nothing, and leave no other file', async () => {
  const options = givenOptions()
  const clients = await Promise.all(all.map((driver) => driver.open(options)))
  const activated = await Promise.all(clients.map((client) => client.call('activate')))
  expect(new Set(activated.map(({ activation_id }) => activation_id)).size).toBe(1)
  for (let round = 0; round < 5; round++) {
    const states = await Promise.all(clients.map((client) => client.call('refresh')))
    expect(states).toMatchObject(clients.map(() => ({ status: 'licensed', problem: null })))
  }
  expect(await readdir(dirname(options.store_file))).toEqual(['licence.json'])
  const { revision } = JSON.parse(await readFile(options.store_file, 'utf8')) as { revision: number }
  expect(revision).toBeGreaterThan(5)
  await clients[0]!.call('deactivate')
  for (const client of clients) expect(await client.call('ready')).toMatchObject({ reason: 'deactivated' })
})
