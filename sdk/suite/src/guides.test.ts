import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { freeAddress } from '@licensing/test-support/free-address'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { describe, expect, test } from 'vitest'
import { folderOf, languages, prepare, programOf, type Language } from './languages.ts'
import { LicensingServer } from './licensing-server.ts'

const fence = /^```(\w+) (\S+)\n([^]*?)^```$/gm

/** The programs of a guide in the languages of a row, as they would be run against a service with one licence. */
async function programsOf(guide: string, { programs }: Language, service: LicensingServer, work: string) {
  const page = await readFile(new URL(`../../../docs/guides/${guide}.md`, import.meta.url), 'utf8')
  const found = [...page.matchAll(fence)].filter(([, kind = '']) => kind in programs)
  return found.map(([, kind = '', name = '', code = '']) => ({
    kind,
    name,
    code: code
      .replaceAll('https://licensing.example.com', service.baseUrl)
      .replaceAll(/app_[0-9a-z]{26}/g, service.appId)
      .replaceAll(/lrk_[\w-]{43}/g, service.rootKey)
      .replaceAll('7ZK2M-4QX9T-B1N8V-WC3HD-60RPF', service.issue())
      .replaceAll('/var/lib/acme', work),
  }))
}

interface Running {
  readonly output: Promise<string>
  readonly code: Promise<unknown>
  readonly kill: () => void
}

async function start(
  language: Language,
  { kind, name, code }: { kind: string; name: string; code: string },
  work: string,
  { given = [], env = {} }: { readonly given?: readonly string[]; readonly env?: object } = {},
): Promise<Running> {
  await prepare(language)
  const file = join(work, name)
  await writeFile(file, code)
  const [program, ...parameters] = programOf(language, kind, { file, work })
  const child = spawn(program, [...parameters, ...given], {
    cwd: folderOf(language),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = Promise.all([text(child.stdout), text(child.stderr)]).then((both) => both.join(''))
  return { output, code: once(child, 'close').then(([code]) => code as unknown), kill: () => child.kill() }
}

const inSomeLanguage = languages.filter(({ programs }) => Object.keys(programs).length > 0)

describe.each(inSomeLanguage)('in the guides, with the SDK of $name,', (language) => {
  test('the product of "License your product" activates', async () => {
    await using service = await LicensingServer.start()
    await using folder = await makeTemporaryFolder()
    const programs = await programsOf('products', language, service, folder.path)
    expect(programs.map(({ kind }) => kind)).toEqual(Object.keys(language.programs))
    for (const program of programs) {
      await using own = await makeTemporaryFolder()
      const code = program.code
        .replaceAll(folder.path, own.path)
        .replaceAll('"licence.json"', JSON.stringify(join(own.path, 'licence.json')))
      const before = service.requests.length
      const { output, code: ended } = await start(language, { ...program, code }, own.path)
      expect(await ended, await output).toBe(0)
      expect(await output).not.toContain('not licensed')
      expect(service.requests.slice(before)).toContain('POST /v1/activations')
      expect(JSON.parse(await readFile(join(own.path, 'licence.json'), 'utf8'))).toHaveProperty('token')
    }
  })

  test('the product of "Machines without a network" makes a request, and says what is wrong with a file', async () => {
    await using service = await LicensingServer.start()
    await using folder = await makeTemporaryFolder()
    const licence_key = service.issue()
    const env = { LICENSING_APP: service.appId, ROOT_KEY: service.rootKey, LICENCE_KEY: licence_key }
    for (const program of await programsOf('offline', language, service, folder.path)) {
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
    for (const program of await programsOf('quickstart', language, service, folder.path)) {
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

  test('the receiver of "Webhooks" compiles', async () => {
    await using service = await LicensingServer.start()
    await using folder = await makeTemporaryFolder()
    const programs = await programsOf('webhooks', language, service, folder.path)
    const [receiver] = programs.filter(({ name }) => name === 'receive.rs')
    if (!receiver) return
    const code = `${receiver.code}\nfn main() { let _ = receive; }\n`
    const compiled = await start(language, { ...receiver, code }, folder.path)
    expect(await compiled.code, await compiled.output).toBe(0)
  })
})
