import { chmod, mkdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventually } from '@licensing/test-support/poll'
import { freeAddress } from '@licensing/test-support/free-address'
import { beforeEach, expect, test } from 'vitest'
import { pipeToCommand, runCommand, startCommand, useTerminal } from './command-line.ts'
import { givenFolder, givenStack, givenVendor } from './vendor.ts'

const folder = await givenFolder()
const stack = await givenStack()
const { keyWith } = await givenVendor(stack)
const { key: readKey } = await keyWith({ name: 'reader', scopes: ['read'] })

let home: string
let runs = 0
beforeEach(async () => {
  home = join(folder.path, `home-${runs++}`)
  await mkdir(home)
})

const profiles = () => join(home, '.config/licensing/profiles.json')
const login = (key: string, ...args: string[]) =>
  pipeToCommand(`${key}\n`, { HOME: home }, 'login', '--url', stack.gatewayUrl, ...args).finished
const whoami = async (...args: string[]) => {
  const finished = await runCommand({ HOME: home }, 'whoami', '--json', ...args)
  return { ...finished, answer: JSON.parse(finished.stdout) as Record<string, unknown> }
}

test('login stores URL and key in a file that only its owner can read, and commands then need no variables', async () => {
  const { code, stdout, stderr } = await login(stack.apiKey, '--app', stack.appId)
  expect([code, stderr]).toEqual([0, `stored in ${profiles()}\n`])
  expect(stdout).toContain('profile: default\n')
  expect(stdout).toContain(`account_id: ${stack.accountId}\n`)
  expect(stdout + stderr).not.toContain(stack.apiKey)
  expect((await stat(profiles())).mode & 0o777).toBe(0o600)
  expect((await stat(join(home, '.config/licensing'))).mode & 0o777).toBe(0o700)
  expect((await whoami()).answer).toMatchObject({ profile: 'default', account_id: stack.accountId })
  // The application is stored too.
  expect((await runCommand({ HOME: home }, 'plans', 'list', '--json')).code).toBe(0)
})

test('login replaces the file that a symbolic link leads to, also if it does not exist yet, and keeps the link', async () => {
  const elsewhere = join(home, 'synchronized/profiles.json')
  await mkdir(join(home, 'synchronized'))
  await mkdir(join(home, '.config/licensing'), { recursive: true })
  await symlink('../../synchronized/profiles.json', profiles())
  for (const name of ['first', 'second']) {
    expect((await login(stack.apiKey, '--profile', name)).code).toBe(0)
    expect(await readlink(profiles())).toBe('../../synchronized/profiles.json')
    expect((await stat(elsewhere)).mode & 0o777).toBe(0o600)
  }
  expect(Object.keys(JSON.parse(await readFile(elsewhere, 'utf8')) as object)).toEqual(['first', 'second'])
  expect((await runCommand({ HOME: home }, 'logout', '--profile', 'first')).code).toBe(0)
  expect(Object.keys(JSON.parse(await readFile(elsewhere, 'utf8')) as object)).toEqual(['second'])
  expect(await readlink(profiles())).toBe('../../synchronized/profiles.json')
})

test('several logins at once keep the profiles of all', async () => {
  const names = ['a', 'b', 'c', 'd']
  await Promise.all(names.map((name) => login(stack.apiKey, '--profile', name)))
  expect(Object.keys(JSON.parse(await readFile(profiles(), 'utf8')) as object).toSorted()).toEqual(names)
})

test('without HOME, profiles are below APPDATA, as on Windows; without both, login says what to set', async () => {
  const environment = { APPDATA: home }
  const stored = pipeToCommand(
    `${stack.apiKey}\n`,
    { ...environment, HOME: '' },
    'login',
    '--url',
    stack.gatewayUrl,
  )
  const file = join(home, 'licensing/profiles.json')
  expect(await stored.finished).toMatchObject({ code: 0, stderr: `stored in ${file}\n` })
  expect((await runCommand(environment, 'whoami')).code).toBe(0)
  const nowhere = pipeToCommand(`${stack.apiKey}\n`, { HOME: '' }, 'login', '--url', stack.gatewayUrl)
  expect(await nowhere.finished).toMatchObject({ code: 2, stderr: expect.stringContaining('set HOME') })
})

test('login on a terminal asks for both and does not show the key', async () => {
  await using command = useTerminal({ HOME: home }, 'login')
  await eventually(() => expect(command.stdout()).toContain('Address of the licensing service: '))
  command.type(`${stack.gatewayUrl}\r`)
  await eventually(() => expect(command.stdout()).toContain('API key: '))
  command.type(`${stack.apiKey}\r`)
  const { code, stdout } = await command.finished
  expect(code).toBe(0)
  expect(stdout).not.toContain(stack.apiKey)
  expect(stdout).not.toContain(stack.apiKey.slice(4, 12))
  expect(JSON.parse(await readFile(profiles(), 'utf8'))).toEqual({
    default: { url: `${stack.gatewayUrl}/`, key: stack.apiKey },
  })
})

test('--profile and LICENSING_PROFILE select a profile, logout removes one, and the others stay', async () => {
  expect((await login(stack.apiKey)).code).toBe(0)
  expect((await login(readKey, '--profile', 'reader')).code).toBe(0)
  expect((await stat(profiles())).mode & 0o777).toBe(0o600)
  expect((await whoami()).answer).toMatchObject({ profile: 'default' })
  expect((await whoami('--profile', 'reader')).answer).toMatchObject({
    profile: 'reader',
    name: 'reader',
    scopes: ['read'],
  })
  const chosen = await runCommand({ HOME: home, LICENSING_PROFILE: 'reader' }, 'whoami', '--json')
  expect(JSON.parse(chosen.stdout)).toMatchObject({ name: 'reader' })
  const unknown = await runCommand({ HOME: home }, 'whoami', '--profile', 'none')
  expect(unknown.code).toBe(2)
  expect(unknown.stderr).toContain('there is no profile none; known: default, reader')
  expect((await runCommand({ HOME: home }, 'logout', '--profile', 'reader')).code).toBe(0)
  expect((await runCommand({ HOME: home }, 'whoami', '--profile', 'reader')).code).toBe(2)
  expect((await whoami()).code).toBe(0)
})

test('environment variables override the profile, with a warning if a profile was selected', async () => {
  expect((await login(stack.apiKey)).code).toBe(0)
  const environment = { HOME: home, LICENSING_API_KEY: readKey }
  const silent = await runCommand(environment, 'whoami', '--json')
  expect(silent.stderr).toBe('')
  expect(JSON.parse(silent.stdout)).toMatchObject({ name: 'reader', url: `${stack.gatewayUrl}/` })
  const asked = await runCommand(environment, 'whoami', '--json', '--profile', 'default')
  expect(JSON.parse(asked.stdout)).toMatchObject({ name: 'reader' })
  expect(asked.stderr).toBe('warning: LICENSING_API_KEY of the environment overrides profile default\n')
  const flag = await runCommand(environment, 'whoami', '--json', '--key', stack.apiKey)
  expect(JSON.parse(flag.stdout)).not.toMatchObject({ name: 'reader' })
})

test('a stored key is not sent to another address', async () => {
  expect((await login(stack.apiKey)).code).toBe(0)
  const address = `http://${await freeAddress()}`
  for (const [environment, ...args] of [
    [{ LICENSING_URL: address }],
    [{}, '--url', address],
    [{}, '--url', address, '--profile', 'default'],
  ] as const) {
    const { code, stdout, stderr } = await runCommand({ HOME: home, ...environment }, 'whoami', ...args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(`the key of profile default is for ${stack.gatewayUrl}/`)
  }
})

test('a refused key, an invalid URL and an invalid key are not stored', async () => {
  expect((await login(`lsk_${'x'.repeat(43)}`)).code).toBe(1)
  expect((await login('')).code).toBe(2)
  expect((await login('lsk_ä')).code).toBe(2)
  expect((await login(stack.apiKey, '--profile', 'a b')).code).toBe(2)
  expect((await startCommand({ HOME: home }, 'login').finished).code).toBe(2)
  await expect(stat(profiles())).rejects.toThrow('ENOENT')
})

test('a file that other users can read causes a warning, an invalid file is refused, and its content is not printed', async () => {
  expect((await login(stack.apiKey)).code).toBe(0)
  await chmod(profiles(), 0o644)
  expect((await whoami()).stderr).toBe(
    `warning: other users may read the API keys in ${profiles()}: run chmod 600 ${profiles()}\n`,
  )
  await writeFile(profiles(), `{"default":{"key":"${stack.apiKey}"`)
  const { code, stdout, stderr } = await runCommand({ HOME: home }, 'whoami')
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toBe(`error: ${profiles()} is not a file of licensing login: repair or remove it\n`)
  expect(
    (await runCommand({ HOME: home, LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: readKey }, 'whoami'))
      .code,
  ).toBe(0)
})
