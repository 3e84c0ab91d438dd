import { CHECKOUT } from '@licensing/local-servers/services'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile, spawnSync } from 'node:child_process'
import { mkdir, readdir, readFile, realpath, stat, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensurePacked, sources } from './build.ts'
import { publishedPackages } from './packages.ts'

const run = promisify(execFile)

const dist = join(CHECKOUT, 'deploy/downloads/dist')

interface Manifest {
  version?: string
  exports?: Record<string, object>
  bin?: Record<string, string>
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
}

/** Contains `ours`, the packages that the gateway serves, and `theirs`, the packages that pnpm packs for the registry. */
let folder: TemporaryFolder
const ours = (name: string) => join(folder.path, 'ours/node_modules/@licensing', name)
const theirs = (name: string) => join(folder.path, 'theirs', name)

async function unpack(tarball: string, target: string): Promise<void> {
  await mkdir(target, { recursive: true })
  await run('tar', ['-xzf', tarball, '-C', target, '--strip-components=1'])
}

async function pack(name: string): Promise<void> {
  const target = join(folder.path, `${name}.tgz`)
  const pnpm = join(CHECKOUT, 'tools/pnpm/pnpm.mjs')
  await run(process.execPath, [pnpm, 'pack', '--out', target], { cwd: join(CHECKOUT, name) })
  await unpack(target, theirs(name))
}

beforeAll(async () => {
  folder = await makeTemporaryFolder()
  await ensurePacked(() => undefined)
  for (const { name } of publishedPackages) {
    await unpack(join(CHECKOUT, `deploy/downloads/dist/licensing-${name}.tgz`), ours(name))
  }
  // sdk/typescript/test/package.test.ts packs the SDK. Two tests must not build into the same folder at once.
  await Promise.all([pack('cli'), pack('testing')])
})
afterAll(() => folder[Symbol.asyncDispose]())

const manifestIn = async (path: string) =>
  JSON.parse(await readFile(join(path, 'package.json'), 'utf8')) as Manifest
const filesIn = async (path: string) => (await readdir(path, { recursive: true })).toSorted()

test('the versions of the packages are listed for the page of downloads', async () => {
  const listed = JSON.parse(await readFile(join(dist, 'versions.json'), 'utf8')) as object
  const versions = await Promise.all(
    publishedPackages.map(async ({ name }) => [
      `licensing-${name}.tgz`,
      (await manifestIn(ours(name))).version,
    ]),
  )
  expect(listed).toMatchObject(Object.fromEntries(versions))
  expect(Object.values(listed).filter((version) => !/^\d+\.\d+\.\d+/.test(String(version)))).toEqual([])
  expect(await readdir(dist)).toEqual(expect.arrayContaining(Object.keys(listed)))
})

const hasPython = spawnSync('python3', ['-c', 'import cryptography, pip, zipfile']).status === 0

test.skipIf(!hasPython)('pip installs the wheel, and its product finds no licence', async () => {
  const [wheel = ''] = (await readdir(dist)).filter((file) => file.endsWith('.whl'))
  const target = join(folder.path, 'python')
  const flags = ['--quiet', '--no-deps', '--no-index', '--disable-pip-version-check', '--target', target]
  await run('python3', ['-m', 'pip', 'install', ...flags, join(dist, wheel)])
  const program = `import licensing, licensing.aio, importlib.metadata as metadata
licence = licensing.LicenceClient(base_url='http://127.0.0.1:9', app_id='app_1', root_key='unpinned', fingerprint='f', host='h', product_version='1')
print(metadata.version('licensing'), licence.activate().reason)`
  const { stdout } = await run('python3', ['-c', program], { env: { ...process.env, PYTHONPATH: target } })
  expect(stdout).toBe(`${wheel.split('-')[1]} no_licence_key\n`)
})

const has = (program: string, ...parameters: string[]) => spawnSync(program, parameters).status === 0

test.skipIf(!has('go', 'version'))('a Go module compiles with the module in the zip', async () => {
  const target = join(folder.path, 'go')
  await run('python3', ['-m', 'zipfile', '-e', join(dist, 'licensing-go.zip'), target])
  const [module = ''] = await readdir(join(target, 'licensing.example'))
  const [, version = ''] = module.split('@')
  const requirement = `licensing.example/licensing ${version}`
  const replacement = `licensing.example/licensing => ./licensing.example/${module}`
  await writeFile(
    join(target, 'go.mod'),
    `module product\n\ngo 1.22\n\nrequire ${requirement}\n\nreplace ${replacement}\n`,
  )
  const program = `package main

import "licensing.example/licensing"

func main() {
	client, err := licensing.New(licensing.Options{RootKey: "unpinned"})
	println(client.HasFeature("export_pdf"), err == nil)
}
`
  await writeFile(join(target, 'main.go'), program)
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-mod=mod', GOPROXY: 'off' }
  expect((await run('go', ['run', '.'], { cwd: target, env })).stderr).toBe('false true\n')
})

test.skipIf(!has('javac', '--version'))('a Java program runs with the jar', async () => {
  const program = `import licensing.LicenceClient;
public final class Product {
  public static void main(String[] arguments) {
    try (LicenceClient licence = LicenceClient.builder().rootKey("unpinned").build()) {
      System.out.println(licence.hasFeature("export_pdf") + " " + licence.activate().reason());
    }
  }
}
`
  const file = join(folder.path, 'Product.java')
  await writeFile(file, program)
  const { stdout } = await run('java', ['-cp', join(dist, 'licensing.jar'), file])
  expect(stdout).toBe('false no_licence_key\n')
})

test('the archives of sources are whole, and contain the licence and no tests', async () => {
  const lists = await Promise.all(
    ['licensing-go.zip', 'licensing-csharp.zip'].map(async (file) => {
      const { stdout } = await run('python3', [
        '-c',
        'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print("\\n".join(z.namelist()))',
        join(dist, file),
      ])
      return stdout
    }),
  )
  for (const file of ['licensing.crate', 'licensing-c-source.tar.gz'])
    lists.push((await run('tar', ['-tzf', join(dist, file)])).stdout)
  for (const [at, expected] of ['go.mod', 'Licensing.cs', 'Cargo.toml', 'include/licensing.h'].entries()) {
    const names = lists[at]!
    expect(names).toMatch(new RegExp(`/LICENSE$`, 'm'))
    expect(names).toContain(`/${expected}\n`)
    expect(names).not.toMatch(/test/)
  }
})

test.each(['cli', 'testing'])('the gateway serves %s with the same files as the registry', async (name) => {
  expect(await filesIn(ours(name))).toEqual(await filesIn(theirs(name)))
  const {
    scripts: _,
    devDependencies: __,
    ...published
  } = (await manifestIn(theirs(name))) as Record<string, unknown>
  expect(await manifestIn(ours(name))).toEqual(published)
})

test.each(publishedPackages.map(({ name }) => name))(
  '%s contains the files that its package.json names, its licence and its repository, but no sources',
  async (name) => {
    const manifest = await manifestIn(ours(name))
    expect(manifest).toMatchObject({
      name: `@licensing/${name}`,
      license: 'Apache-2.0',
      engines: { node: '>=20' },
      publishConfig: { access: 'public', provenance: true },
    })
    expect(manifest).not.toHaveProperty('private')
    expect(JSON.stringify(manifest.dependencies ?? {})).not.toMatch(/workspace:|catalog:|@licensing/)
    const files = await filesIn(ours(name))
    expect(files).toEqual(expect.arrayContaining(['README.md', 'LICENSE']))
    expect(files.filter((file) => /^src|\.test\.|(?<!\.d)\.[cm]?ts$/.test(file))).toEqual([])
    const targets = JSON.stringify(manifest.exports ?? {}).match(/\.\/dist\/[^"]+/g) ?? []
    const programs = Object.values(manifest.bin ?? {})
    expect([...targets, ...programs].length).toBeGreaterThan(0)
    for (const target of [...targets, ...programs]) expect(files).toContain(target.slice(2))
    for (const program of programs) {
      expect((await stat(join(ours(name), program))).mode & 0o111).not.toBe(0)
      expect(await readFile(join(ours(name), program), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/)
    }
  },
)

test('the packages inside the command line are installed in an image, and a change to one packs it again', async () => {
  // An image's installation leaves out the development dependencies of the command line.
  const { devDependencies } = await manifestIn(join(CHECKOUT, 'cli'))
  const inside = Object.keys(devDependencies ?? {}).filter((name) => name !== 'vitest')
  const { dependencies } = await manifestIn(join(CHECKOUT, 'deploy/downloads'))
  expect(Object.keys(dependencies ?? {})).toEqual(expect.arrayContaining(inside))
  const folders = await Promise.all(
    inside
      .filter((name) => name.startsWith('@licensing/'))
      .map((name) => realpath(join(CHECKOUT, 'cli/node_modules', name))),
  )
  expect(folders.length).toBeGreaterThan(2)
  expect(sources).toEqual(expect.arrayContaining(folders.map((path) => `${relative(CHECKOUT, path)}/src`)))
})

test('the installed command line runs and prints its version', async () => {
  const program = join(ours('cli'), 'dist/main.js')
  const { version } = JSON.parse(await readFile(join(ours('cli'), 'package.json'), 'utf8')) as {
    version: string
  }
  expect(await run(program, ['--version'])).toEqual({ stdout: `${version}\n`, stderr: '' })
  expect((await run(program, ['complete', '--', 'licences', 'iss'])).stdout).toBe('issue\n')
})

test.each([
  ['nodenext', ['--module', 'nodenext']],
  ['a bundler', ['--module', 'esnext', '--moduleResolution', 'bundler']],
])('the test helper type checks from TypeScript that resolves as %s', async (_, flags) => {
  const project = join(folder.path, 'ours')
  await writeFile(join(project, 'package.json'), '{ "type": "module" }')
  const code = `import { startLicensing, type ReceivedEvent } from '@licensing/testing'
    await using licensing = await startLicensing({ timeoutMs: 1 })
    const event: ReceivedEvent = await licensing.events.next('licence.created')
    await licensing.simulator.refund(event.id, { amount: 1 })
    // @ts-expect-error: it takes no number
    await licensing.simulator.pay(1)`
  await writeFile(join(project, 'use.ts'), code)
  const compiler = join(CHECKOUT, 'node_modules/.bin/tsc')
  const all = [
    '--ignoreConfig',
    '--noEmit',
    '--strict',
    '--target',
    'es2022',
    '--lib',
    'esnext',
    '--types',
    '',
    ...flags,
  ]
  const complaints = await run(compiler, [...all, 'use.ts'], { cwd: project }).then(
    () => '',
    ({ stdout }: { stdout: string }) => stdout,
  )
  expect(complaints).toBe('')
})
