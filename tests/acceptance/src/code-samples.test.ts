import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { complaintsAbout } from './compile.ts'
import { givenStack, givenVendor } from './vendor.ts'

const run = promisify(execFile)
const here = fileURLToPath(new URL('..', import.meta.url))

interface Sample {
  lang: string
  label: string
  source: string
}
interface Operation {
  operationId: string
  'x-codeSamples': Sample[]
}

interface Runner {
  readonly file: string
  /** A command that succeeds if the language is installed. */
  readonly probe: readonly [string, ...string[]]
  readonly build?: readonly [string, ...string[]]
  readonly run: readonly [string, ...string[]]
}

// Go is only parsed, because the first compilation of its HTTP client takes half a minute.
const labels = ['curl', 'TypeScript', 'Python', 'Go', 'Java', 'C#', 'PHP', 'Ruby']

const runners: Readonly<Record<string, Runner>> = {
  curl: { file: 'sample.sh', probe: ['curl', '--version'], run: ['bash', 'sample.sh'] },
  TypeScript: { file: 'sample.ts', probe: [process.execPath, '-v'], run: [process.execPath, 'sample.ts'] },
  Python: { file: 'sample.py', probe: ['python3', '--version'], run: ['python3', 'sample.py'] },
  Java: { file: 'Sample.java', probe: ['javac', '-version'], run: ['java', 'Sample.java'] },
  'C#': {
    file: 'sample.cs',
    probe: ['sh', '-c', 'mcs --version && ls /usr/lib/mono/gac/System.Net.Http'],
    build: ['mcs', '-r:System.Net.Http.dll', 'sample.cs'],
    run: ['mono', 'sample.exe'],
  },
  PHP: { file: 'sample.php', probe: ['php', '--version'], run: ['php', 'sample.php'] },
  Ruby: { file: 'sample.rb', probe: ['ruby', '--version'], run: ['ruby', 'sample.rb'] },
}

const stack = await givenStack()
const document = (await (await fetch(`${stack.gatewayUrl}/docs/json`)).json()) as {
  paths: Record<string, Record<string, Operation>>
}
const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods))

function sourceOf(id: string, label: string): string {
  const { 'x-codeSamples': samples } = operations.find(({ operationId }) => operationId === id)!
  return samples.find((sample) => sample.label === label)!.source
}

test('the API reference has a sample in every language for every operation', () => {
  expect(operations.length).toBeGreaterThan(70)
  for (const { operationId, 'x-codeSamples': samples } of operations) {
    expect(
      samples.map(({ label }) => label),
      operationId,
    ).toEqual(labels)
    for (const { source } of samples) expect(source, operationId).not.toMatch(/undefined|\[object/)
  }
})

test.each(Object.entries(runners))(
  'the sample in %s issues a licence without changes',
  async (label, { file, probe, build, run: command }) => {
    if (spawnSync(probe[0], probe.slice(1)).status !== 0) {
      return void process.stdout.write(`skipped: no ${label} for the samples of the API reference\n`)
    }
    const vendor = await givenVendor(stack)
    const { id: planId } = await vendor.plan()
    await using folder = await makeTemporaryFolder()
    const cwd = folder.path
    const source = sourceOf('issueLicence', label)
      .replaceAll(/app_[a-z0-9]{26}/g, vendor.appId)
      .replaceAll(/pln_[a-z0-9]{26}/g, planId)
    await writeFile(join(cwd, file), source)
    await writeFile(join(cwd, 'package.json'), '{ "type": "module" }')
    execFileSync('ln', ['-s', join(here, 'node_modules'), join(cwd, 'node_modules')])
    const env = { ...process.env, LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: stack.apiKey }
    if (build) await run(build[0], build.slice(1), { cwd })
    const { stdout } = await run(command[0], command.slice(1), { cwd, env })
    const issued = await vendor.licences()
    expect(issued).toMatchObject([{ external_ref: 'customer-4711' }])
    expect(stdout).toContain(issued[0]!.id)
  },
)

test('every sample in TypeScript compiles, and every sample in curl, Python and Go parses', async () => {
  await using folder = await makeTemporaryFolder()
  const cwd = folder.path
  const sources: Record<string, string> = {}
  for (const { operationId: id } of operations) {
    sources[`${id}.ts`] = sourceOf(id, 'TypeScript')
    await writeFile(join(cwd, `${id}.sh`), sourceOf(id, 'curl'))
    await writeFile(join(cwd, `${id}.py`), sourceOf(id, 'Python'))
    await writeFile(join(cwd, `${id}.go`), sourceOf(id, 'Go'))
  }
  expect(await complaintsAbout(sources)).toBe('')
  await run('sh', ['-c', 'for file in *.sh; do bash -n "$file" || exit 1; done'], { cwd })
  await run('python3', ['-m', 'compileall', '-q', '.'], { cwd })
  if (spawnSync('gofmt', ['-h']).error === undefined)
    await run('sh', ['-c', 'gofmt -e *.go >/dev/null'], { cwd })
  else process.stdout.write('skipped: no gofmt for the samples of the API reference\n')
})
