import { execFileSync, spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { mkdtempDisposable, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { drawing, drawn } from '@licensing/test-support/drawn'
import { compile, folderOf, languages } from './languages.ts'
import { beforeAll, describe, expect, it } from 'vitest'

const guide = new URL('../../../docs/guides/webhooks.md', import.meta.url)
const modules = fileURLToPath(new URL('../../../tests/acceptance/node_modules', import.meta.url))

interface Recipe {
  readonly file: string
  /** A command that succeeds if the language is installed. */
  readonly probe: readonly [string, ...string[]]
  readonly build?: readonly [string, ...string[]]
  readonly run: readonly [string, ...string[]]
}

const recipes: readonly Recipe[] = [
  { file: 'verify.ts', probe: [process.execPath, '--version'], run: [process.execPath, 'verify.ts'] },
  { file: 'verify.py', probe: ['python3', '--version'], run: ['python3', 'verify.py'] },
  {
    file: 'verify.go',
    probe: ['go', 'version'],
    build: ['go', 'build', '-o', 'verify-go', 'verify.go'],
    run: ['./verify-go'],
  },
  {
    file: 'Verify.java',
    probe: ['javac', '-version'],
    build: ['javac', 'Verify.java'],
    run: ['java', 'Verify'],
  },
  {
    file: 'verify.cs',
    probe: ['mcs', '--version'],
    build: ['mcs', 'verify.cs'],
    run: ['mono', 'verify.exe'],
  },
  { file: 'verify.php', probe: ['php', '--version'], run: ['php', 'verify.php'] },
  { file: 'verify.rb', probe: ['ruby', '--version'], run: ['ruby', 'verify.rb'] },
]

/** Recipes that use an SDK of another language than TypeScript. */
const withSdk = [
  { file: 'verify.rs', name: 'Rust', kind: 'rust' },
  { file: 'verify.cpp', name: 'C++', kind: 'cpp' },
]

const secret = 'whsec_Zm9yLXRoZS1yZWNpcGVzLW9mLXRoZS1ndWlkZS1hbG9uZQ'
const body = `{"id":"evt_1","type":"webhook.test", "api_version":"2026-11-01","created_at":"2026-11-01T12:00:00.000Z",
"sequence":1,"account_id":"acct_1","application_id":"app_1","data":{"object":{"ping":true,"note":"é 😀 \\u00e9"}},"previous":null}`

function sign({ secondsAgo = 0, by = secret } = {}): string {
  const at = Math.floor(Date.now() / 1000) - secondsAgo
  return `t=${at},v1=${createHmac('sha256', by).update(`${at}.${body}`).digest('hex')}`
}

const standardSecret = 'whsec_Zm9yLXRoZS1yZWNpcGVzLW9mLXRoZS1ndWlkZSE='
const otherStandardSecret = 'whsec_b3RoZXI='

/** The arguments of a standard signature, with a signature for each secret. */
function standard({ secondsAgo = 0, by = [standardSecret], id = 'evt_1' } = {}): string[] {
  const at = Math.floor(Date.now() / 1000) - secondsAgo
  const macs = by.map((secret) => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`evt_1.${at}.${body}`).digest('base64')}`
  })
  return [macs.join(' '), standardSecret, id, String(at)]
}

const during = () => `${sign({ by: 'whsec_new' })},${sign().split(',')[1]!}`

const cases: readonly [title: string, args: () => string[], body: string, answer: string][] = [
  ['a delivery as it is sent', () => [sign(), secret], body, 'valid'],
  ['a delivery of minutes ago', () => [sign({ secondsAgo: 200 }), secret], body, 'valid'],
  ['a delivery of too long ago', () => [sign({ secondsAgo: 320 }), secret], body, 'invalid'],
  ['a delivery from the future', () => [sign({ secondsAgo: -400 }), secret], body, 'invalid'],
  ['another secret', () => [sign({ by: 'whsec_other' }), secret], body, 'invalid'],
  [
    'a body that was parsed and serialised again',
    () => [sign(), secret],
    JSON.stringify(JSON.parse(body)),
    'invalid',
  ],
  ['a header with an additional character', () => [`${sign()}x`, secret], body, 'invalid'],
  ['a signature for each of two secrets', () => [during(), secret], body, 'valid'],
  ['two signatures for other secrets', () => [during(), 'whsec_other'], body, 'invalid'],
  ['a standard signature', () => standard(), body, 'valid'],
  [
    'a standard signature for each of two secrets',
    () => standard({ by: [otherStandardSecret, standardSecret] }),
    body,
    'valid',
  ],
  ['a standard signature of too long ago', () => standard({ secondsAgo: 320 }), body, 'invalid'],
  ['a standard signature by another secret', () => standard({ by: [otherStandardSecret] }), body, 'invalid'],
  ['a standard signature of another event', () => standard({ id: 'evt_2' }), body, 'invalid'],
  ['a standard signature of another body', () => standard(), `${body} `, 'invalid'],
]

let folder: string
const written: string[] = []
beforeAll(async () => {
  const temporary = await mkdtempDisposable(join(tmpdir(), 'licensing-recipes-'))
  folder = temporary.path
  const text = await readFile(guide, 'utf8')
  for (const [, name = '', code = ''] of text.matchAll(/^```\w+(?: (\S+))?\n([^]*?)^```$/gm)) {
    written.push(name)
    await writeFile(join(folder, name), code)
  }
  await symlink(modules, join(folder, 'node_modules'))
  return () => temporary.remove()
})

it('covers every program of the guide', () => {
  const files = [...recipes, ...withSdk].map(({ file }) => file)
  expect(written.toSorted()).toEqual(files.toSorted())
})

/** The answers of a program to all cases. */
function answersOf([command, ...args]: readonly [string, ...string[]], cwd: string) {
  return cases.map(([title, given, sent]) => {
    const done = spawnSync(command, [...args, ...given()], { cwd, input: sent, encoding: 'utf8' })
    return [title, done.stdout.trim() || done.stderr]
  })
}

const expected = cases.map(([title, , , answer]) => [title, answer])

describe.each(drawn(recipes, 2))(`the recipe $file (${drawing})`, ({ file, probe, build, run }) => {
  const [program, ...version] = probe
  const isInstalled = spawnSync(program, version).status === 0
  if (!isInstalled) process.stdout.write(`skipped: no ${program} for the recipe ${file}\n`)

  it.skipIf(!isInstalled)('accepts only deliveries that are correctly signed, recent and unchanged', () => {
    if (build) execFileSync(build[0], build.slice(1), { cwd: folder, stdio: 'pipe' })
    expect(answersOf(run, folder)).toEqual(expected)
  })
})

const installed = withSdk.filter(({ name }) => languages.some((language) => language.name === name))

it.each(drawn(installed, 1))(
  `the program $file, with the SDK of $name, accepts the same deliveries (${drawing})`,
  async ({ file, name, kind }) => {
    const language = languages.find((one) => one.name === name)!
    const code = await readFile(join(folder, file), 'utf8')
    const command = await compile(language, { kind, name: file, code }, folder)
    expect(answersOf(command, folderOf(language))).toEqual(expected)
  },
)
