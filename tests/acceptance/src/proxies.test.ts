import { commandEnvironment } from '@licensing/test-support/command-environment'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { settingsOf, startCommand } from './command-line.ts'
import { expectStatus, givenFolder, givenStack, givenVendor } from './vendor.ts'
import type { Licence } from './vendor.ts'

const folder = await givenFolder()
const stack = await givenStack()
const vendor = await givenVendor(stack)
const licence = await vendor.issue((await vendor.plan()).id)

/** A forward proxy for CONNECT and for requests with absolute URLs. It records the requested targets. */
async function startProxy() {
  const targets = new Set<string>()
  const server = createServer((incoming, response) => {
    const { host } = new URL(incoming.url ?? '')
    targets.add(host)
    const { method = 'GET', headers } = incoming
    incoming.pipe(
      request(incoming.url ?? '', { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      }),
    )
  })
  server.on('connect', ({ url = '' }, client, head) => {
    targets.add(url)
    const [, host = '', port] = /^(.*):(\d+)$/.exec(url) ?? []
    const upstream = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      upstream.write(head)
      upstream.pipe(client).pipe(upstream)
    })
    for (const socket of [upstream, client])
      socket.on('error', () => void [upstream, client].map((each) => each.destroy()))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    targets,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

const gateway = new URL(stack.gatewayUrl).host
const module = (name: string) => JSON.stringify(import.meta.resolve(name))

/** Runs a program of a product or a backend, and parses its output. */
async function runProgram(program: string, environment: Record<string, string>): Promise<unknown> {
  const file = join(folder.path, `${crypto.randomUUID()}.mjs`)
  await writeFile(file, program)
  const { stdout } = await promisify(execFile)(process.execPath, [file], {
    env: { ...commandEnvironment(), ...environment },
  })
  return JSON.parse(stdout) as unknown
}

const product = (fetch = 'undefined') => `
  const { LicenceClient } = await import(${module('@licensing/sdk')})
  const licence = new LicenceClient({
    baseUrl: ${JSON.stringify(stack.gatewayUrl)}, appId: ${JSON.stringify(vendor.appId)},
    rootKey: ${JSON.stringify(vendor.rootKey)}, licenceKey: ${JSON.stringify(licence.key)},
    fingerprint: 'behind-a-proxy', host: 'office.example.com', productVersion: '1', background: false, fetch: ${fetch},
  })
  const { status, problem } = await licence.activate()
  console.log(JSON.stringify([status, problem]))`

const backend = (baseUrl: string) => `
  const { createLicensingBackend } = await import(${module('@licensing/sdk/backend')})
  const licensing = createLicensingBackend({ baseUrl: ${JSON.stringify(baseUrl)}, apiKey: ${JSON.stringify(stack.apiKey)}, retries: 0 })
  const { id } = await licensing.get('/v1/licences/{licence_id}', { path: { licence_id: ${JSON.stringify(licence.id)} } })
  console.log(JSON.stringify(id))`

// The code of sdk/typescript/README.md.
const notifier = new URL('../../../services/notifier/package.json', import.meta.url)
const undici = JSON.stringify(new URL(createRequire(notifier).resolve('undici'), 'file:').href)
const withAgent = `
  const { default: undici } = await import(${undici})
  const dispatcher = new undici.EnvHttpProxyAgent()
  ${product('(url, init) => undici.fetch(url, { ...init, dispatcher })')}`

test.each([
  ['NODE_USE_ENV_PROXY', product(), { NODE_USE_ENV_PROXY: '1' }],
  ['setGlobalProxyFromEnv', `(await import('node:http')).setGlobalProxyFromEnv()\n${product()}`, {}],
  ['a fetch with an EnvHttpProxyAgent', withAgent, {}],
] as const)(
  'a product reaches the service through the proxy of HTTP_PROXY with %s',
  async (_way, program, environment) => {
    await using proxy = await startProxy()
    const through = { ...environment, HTTP_PROXY: proxy.url }
    expect(await runProgram(program, through)).toEqual(['licensed', null])
    expect([...proxy.targets]).toEqual([gateway])
    proxy.targets.clear()
    const past = await runProgram(program, { ...through, NO_PROXY: '127.0.0.1,localhost' })
    expect([past, [...proxy.targets]]).toEqual([['licensed', null], []])
  },
)

/** Stands in for a service behind HTTPS. Its clients run on this machine, whatever the stack runs on. */
const givenSecureService = () => startHttpsReceiver({ body: JSON.stringify({ id: licence.id }) }, 'processes')

test('a backend reaches the service through the proxy of HTTPS_PROXY', async () => {
  await using proxy = await startProxy()
  await using receiver = await givenSecureService()
  const environment = {
    NODE_USE_ENV_PROXY: '1',
    NODE_EXTRA_CA_CERTS: receiver.caFile,
    HTTP_PROXY: 'http://127.0.0.1:9',
    HTTPS_PROXY: proxy.url,
  }
  const base = receiver.url('')
  expect(await runProgram(backend(base), environment)).toBe(licence.id)
  expect([...proxy.targets]).toEqual([new URL(base).host])
  proxy.targets.clear()
  expect(await runProgram(backend(base), { ...environment, NO_PROXY: 'localhost' })).toBe(licence.id)
  expect([...proxy.targets]).toEqual([])
  expect(receiver.requests).toHaveLength(2)
})

test('the command line uses HTTP_PROXY, HTTPS_PROXY and NO_PROXY by itself', async () => {
  await using proxy = await startProxy()
  const settings = settingsOf(stack, vendor.appId)
  const show = (environment: Record<string, string>) =>
    startCommand({ ...settings, ...environment }, 'licences', 'show', licence.id, '--json').finished
  for (const name of ['HTTP_PROXY', 'http_proxy']) {
    proxy.targets.clear()
    const { code, stdout } = await show({ [name]: proxy.url, HTTPS_PROXY: 'http://127.0.0.1:9' })
    expect([code, (JSON.parse(stdout) as Licence).id]).toEqual([0, licence.id])
    expect([...proxy.targets]).toEqual([gateway])
  }
  proxy.targets.clear()
  expect(await show({ HTTP_PROXY: proxy.url, NO_PROXY: '127.0.0.1' })).toMatchObject({ code: 0, stderr: '' })
  expect(await show({ HTTPS_PROXY: proxy.url })).toMatchObject({ code: 0, stderr: '' })
  expect([...proxy.targets]).toEqual([])

  await using receiver = await givenSecureService()
  const secure = {
    LICENSING_URL: receiver.url(''),
    NODE_EXTRA_CA_CERTS: receiver.caFile,
    HTTPS_PROXY: proxy.url,
  }
  await show(secure)
  expect([...proxy.targets]).toEqual([new URL(receiver.url()).host])
  expect(receiver.requests.map(({ path }) => path)).toEqual([`/v1/licences/${licence.id}`])

  for (const wrong of ['no url', 'ftp://user:secret@127.0.0.1:1080']) {
    const { code, stderr } = await show({ HTTP_PROXY: wrong })
    expect([wrong, code]).toEqual([wrong, 2])
    expect(stderr).toContain('HTTP_PROXY')
    expect(stderr).not.toContain('secret')
  }
})

test('if the service does not answer through a proxy, the error names the proxy, without its password', async () => {
  const settings = settingsOf(stack, vendor.appId)
  const run = (environment: Record<string, string>) =>
    startCommand({ ...settings, ...environment }, 'licences', 'show', licence.id).finished
  const named = (name: string) =>
    `${name} names the proxy http://127.0.0.1:9: check it too, or add the host to NO_PROXY\n`
  const refused = await run({ HTTP_PROXY: 'http://user:secret@127.0.0.1:9' })
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain(
    `the licensing service at ${stack.gatewayUrl} does not answer (ECONNREFUSED)\n`,
  )
  expect(refused.stderr.endsWith(named('HTTP_PROXY'))).toBe(true)
  expect(refused.stderr).not.toContain('secret')
  const secure = { LICENSING_URL: 'https://licensing.example.com', https_proxy: 'http://127.0.0.1:9' }
  expect((await run(secure)).stderr.endsWith(named('https_proxy'))).toBe(true)
  await using proxy = await startProxy()
  expect(
    (await run({ HTTP_PROXY: proxy.url, LICENSING_API_KEY: `lsk_${'x'.repeat(43)}` })).stderr,
  ).not.toContain('proxy')
})

test('listen follows events through the proxy, and forwards them without it', async () => {
  await using proxy = await startProxy()
  const local = createServer((incoming, response) => void incoming.resume().on('end', () => response.end()))
  local.listen(0, '127.0.0.1')
  await once(local, 'listening')
  const { port } = local.address() as AddressInfo
  const settings = settingsOf(stack, vendor.appId)
  const environment = { ...settings, HTTP_PROXY: proxy.url }
  const parameters = ['listen', '--forward-to', `http://127.0.0.1:${port}/`, '--after', '0']
  const suspended = await vendor.issue((await vendor.plan()).id)
  expectStatus(await vendor.verb('suspend', suspended.id), 200)
  await using command = startCommand(environment, ...parameters)
  await expect
    .poll(() => command.stdout() + command.stderr(), { timeout: 60_000 })
    .toMatch(/licence\.suspended 200/)
  expect([...proxy.targets]).toEqual([gateway])
  await command.stop()
  local.close()
  local.closeAllConnections()
})
