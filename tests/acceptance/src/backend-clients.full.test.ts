import { execFile, spawnSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { describe, expect, test } from 'vitest'
import { blocksOf } from './documents.ts'
import { givenFolder, givenStack, givenVendor } from './vendor.ts'

const run = promisify(execFile)
const folder = await givenFolder()
const stack = await givenStack()

const has = (program: string, ...parameters: string[]) => spawnSync(program, parameters).status === 0
const canPackage = has('python3', '-m', 'venv', '--help') && has('curl', '--version')

describe.each([
  {
    language: 'Python',
    kind: 'python',
    file: 'issue.py',
    commands: ['python3 -m pip install --quiet httpx attrs python-dateutil', 'python3 issue.py'],
    isReady: canPackage,
  },
  {
    language: 'Go',
    kind: 'go',
    file: 'issue.go',
    commands: ['go mod init shop.example', 'go mod tidy', 'go vet ./...', 'go run .'],
    isReady: canPackage && has('go', 'version') && has('java', '-version'),
  },
])('the commands of "Call the API from your backend" for $language', ({ kind, file, commands, isReady }) => {
  test.skipIf(!isReady)('generate a client that compiles and issues a licence', async () => {
    const vendor = await givenVendor(stack)
    const { id } = await vendor.plan()
    const cwd = join(folder.path, kind)
    await mkdir(cwd)
    const blocks = blocksOf('docs/guides/backends.md')
    const program = blocks.find((block) => block.file === file)!
    await writeFile(join(cwd, file), program.code)
    const generate = blocks.filter(({ language }) => language === 'sh')[kind === 'python' ? 0 : 1]!
    const script = ['set -eu', 'python3 -m venv venv', 'PATH=$PWD/venv/bin:$PATH', generate.code, ...commands]
    const env = {
      ...commandEnvironment(),
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      LICENSING_URL: stack.gatewayUrl,
      LICENSING_API_KEY: stack.apiKey,
      LICENSING_APP: vendor.appId,
    }
    const { stdout } = await run('bash', ['-c', script.join('\n')], { cwd, env, maxBuffer: 64 * 1024 * 1024 })
    const licence = await vendor.api.get<{ plan_id: string }>(
      `/v1/licences/${stdout.trim().split('\n').at(-1)}`,
    )
    expect(licence.body).toMatchObject({ plan_id: id, external_ref: 'customer-1' })
  })
})
