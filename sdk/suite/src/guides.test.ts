import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { drawing, drawn, isFull } from '@licensing/test-support/drawn'
import { freeAddress } from '@licensing/test-support/free-address'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { describe, expect, test } from 'vitest'
import { compile, folderOf, languages, type Language, type Source } from './languages.ts'
import { LicensingServer } from './licensing-server.ts'

const guides = new URL('../../../docs/guides/', import.meta.url)
const ACTIVATE = 'products#Activate and check entitlements'
const fence = /^```(\w+) (\S+)\n([^]*?)^```$/gm

/** A guide, or one passage of it: `products#Trials`. */
async function textOf(part: string): Promise<string> {
  const [guide, passage] = part.split('#')
  const page = await readFile(new URL(`${guide}.md`, guides), 'utf8')
  if (passage === undefined) return page
  return page.split(/^## /m).find((text) => text.startsWith(`${passage}\n`)) ?? ''
}

/** The programs of a guide in the languages of a row, as they would be run against a service with one licence. */
async function programsOf(part: string, { programs }: Language, service: LicensingServer): Promise<Source[]> {
  const found = [...(await textOf(part)).matchAll(fence)].filter(
    ([, kind = '', name = '']) => kind in programs && !name.startsWith('container.'),
  )
  expect(found.length, `the guide ${part} has no program`).toBeGreaterThan(0)
  return found.map(([, kind = '', name = '', code = '']) => ({
    kind,
    name,
    code: code
      .replaceAll('https://licensing.example.com', service.baseUrl)
      .replaceAll(/app_[0-9a-z]{26}/g, service.appId)
      .replaceAll(/lrk_[\w-]{43}/g, service.rootKey)
      .replaceAll('7ZK2M-4QX9T-B1N8V-WC3HD-60RPF', service.issue()),
  }))
}

interface Running {
  readonly output: Promise<string>
  readonly code: Promise<unknown>
  readonly pressEnter: () => void
  readonly kill: () => void
}

async function start(
  language: Language,
  source: Source,
  work: string,
  { given = [], env = {} }: { readonly given?: readonly string[]; readonly env?: object } = {},
): Promise<Running> {
  const [program, ...parameters] = await compile(language, source, work)
  const child = spawn(program, [...parameters, ...given], {
    cwd: folderOf(language),
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const output = Promise.all([text(child.stdout), text(child.stderr)]).then((both) => both.join(''))
  return {
    output,
    code: once(child, 'close').then(([code]) => code as unknown),
    pressEnter: () => child.stdin.write('\n'),
    kill: () => child.kill(),
  }
}

/** A program of the guide for products, with the store in a folder of its own. */
function withStoreIn(folder: string, program: Source): Source {
  const code = program.code
    .replaceAll('/var/lib/acme', folder)
    .replaceAll('"licence.json"', JSON.stringify(join(folder, 'licence.json')))
  return { ...program, code }
}

/** The languages of a row in which guides have programs, without those of tests. */
const kindsOf = ({ programs }: Language) => Object.keys(programs).filter((kind) => !kind.endsWith(' test'))

const inSomeLanguage = languages.filter(({ programs }) => Object.keys(programs).length > 0)

describe.each(inSomeLanguage)('in the guides, with the SDK of $name,', (language) => {
  test('the product of "License your product" activates', async () => {
    await using service = await LicensingServer.start()
    const programs = await programsOf(ACTIVATE, language, service)
    expect(programs.map(({ kind }) => kind)).toEqual(kindsOf(language))
    for (const program of programs) {
      await using folder = await makeTemporaryFolder()
      const before = service.requests.length
      const { output, code } = await start(language, withStoreIn(folder.path, program), folder.path)
      expect(await code, await output).toBe(0)
      expect(await output).not.toContain('not licensed')
      expect(service.requests.slice(before)).toContain('POST /v1/activations')
      expect(JSON.parse(await readFile(join(folder.path, 'licence.json'), 'utf8'))).toHaveProperty('token')
    }
  })

  test('the product of "Machines without a network" makes a request, and says what is wrong with a file', async () => {
    await using service = await LicensingServer.start()
    await using folder = await makeTemporaryFolder()
    const licence_key = service.issue()
    const env = { LICENSING_APP: service.appId, ROOT_KEY: service.rootKey, LICENCE_KEY: licence_key }
    for (const program of await programsOf('offline', language, service)) {
      const code = program.code.replaceAll('licence.json', join(folder.path, 'licence.json'))
      const asking = await start(language, { ...program, code }, folder.path, { env })
      expect(await asking.code, await asking.output).toBe(0)
      expect(JSON.parse(await asking.output)).toMatchObject({ licence_key })
      await using other = await makeTemporaryFolder()
      const given = [join(folder.path, program.name)]
      const reading = await start(language, { ...program, code }, other.path, { env, given })
      expect(await reading.output).toContain('file_malformed')
    }
    expect(service.requests).toEqual([])
  })

  test('the server of the quickstart verifies a delivery', async () => {
    await using service = await LicensingServer.start()
    await using folder = await makeTemporaryFolder()
    for (const program of await programsOf('quickstart', language, service)) {
      if (program.kind === 'cpp' && !existsSync('/usr/include/httplib.h')) {
        process.stdout.write('skipped: the server of the quickstart in C++ (no libcpp-httplib-dev)\n')
        continue
      }
      const PORT = (await freeAddress()).split(':')[1]!
      const env = { PORT, WEBHOOK_SECRET: 'whsec_test' }
      const server = await start(language, program, folder.path, { env })
      const body = '{"id":"evt_1","type":"webhook.test","data":{"object":{"ping":true}}}'
      const at = Math.floor(Date.now() / 1000)
      const mac = createHmac('sha256', 'whsec_test').update(`${at}.${body}`).digest('hex')
      const deliver = async (signature: string) => {
        const headers = { 'webhook-signature': signature }
        return (await fetch(`http://127.0.0.1:${PORT}/`, { method: 'POST', headers, body })).status
      }
      await eventually(async () => expect(await deliver(`t=${at},v1=${mac}`)).toBe(204), {
        timeoutMs: 60_000,
      })
      expect(await deliver(`t=${at},v1=${mac.replaceAll(/./g, '0')}`)).toBe(400)
      server.kill()
      expect(await server.output).toContain('verified')
    }
  })
})

describe.each(drawn(inSomeLanguage, 1))(`in the guides, with the SDK of $name (${drawing}),`, (language) => {
  test('the product of "Floating licences" says that no place is free, and holds a lease while it runs', async () => {
    await using service = await LicensingServer.start()
    // A call takes at most 5 s, so the token of a call that succeeded is still valid.
    service.tokenLifeSeconds = 7
    const programs = await programsOf('products#Floating licences', language, service)
    expect(programs.map(({ kind }) => kind)).toEqual(kindsOf(language))
    for (const program of programs) {
      await using first = await makeTemporaryFolder()
      service.maxConcurrent = 0
      const refused = await start(language, withStoreIn(first.path, program), first.path)
      expect(await refused.code, await refused.output).toBe(0)
      expect(await refused.output).toContain('All places of this licence are in use')
      await using second = await makeTemporaryFolder()
      service.maxConcurrent = 1
      const before = service.requests.length
      const running = await start(language, withStoreIn(second.path, program), second.path)
      const requests = () => service.requests.slice(before).map((request) => request.split('/').at(-1))
      if (isFull) {
        // Takes half of the token's life.
        await eventually(() => expect(requests()).toContain('refresh'), { timeoutMs: 60_000 })
        expect(requests()).not.toContain('release')
      }
      running.pressEnter()
      expect(await running.code, await running.output).toBe(0)
      expect(await running.output).toContain('running')
      expect(requests()).toContain('release')
    }
  })
})

describe.each(drawn(inSomeLanguage, 2))(`in the guides, with the SDK of $name (${drawing}),`, (language) => {
  test('the product starts a trial with the call of "Trials"', async () => {
    await using service = await LicensingServer.start()
    const trials = await textOf('products#Trials')
    for (const product of await programsOf(ACTIVATE, language, service)) {
      await using folder = await makeTemporaryFolder()
      const [, call = ''] = new RegExp(`^\`\`\`${product.kind}\n(.*)$`, 'm').exec(trials) ?? []
      const program = withStoreIn(folder.path, product)
      const code = program.code
        .replace(/^.*[lL]icence_?[kK]ey.*\n/m, '')
        .replace(/^.*activate(?:Async)?\(.*$/im, call)
      const before = service.requests.length
      const { output, code: ended } = await start(language, { ...program, code }, folder.path)
      expect(await ended, await output).toBe(0)
      expect(service.requests.slice(before)).toContain(`POST /v1/apps/${service.appId}/trials`)
      expect(await output).not.toContain('not licensed')
    }
  })

  test('the test of "Testing your integration" gives a product a time, a network and a store', async () => {
    await using service = await LicensingServer.start()
    await using folder = await makeTemporaryFolder()
    for (const program of await programsOf('testing', language, service)) {
      const env = {
        LICENSING_URL: service.baseUrl,
        LICENSING_APP: service.appId,
        ROOT_KEY: service.rootKey,
        LICENCE_KEY: service.issue(),
      }
      const code = program.code.replaceAll('licence-of-the-test.json', join(folder.path, 'licence.json'))
      const { output, code: ended } = await start(language, { ...program, code }, folder.path, { env })
      expect(await ended, await output).toBe(0)
      // The starts without a network have not reached it.
      expect(service.requests.filter((request) => !request.includes('jwks'))).toEqual([
        'POST /v1/activations',
      ])
    }
  })
})
