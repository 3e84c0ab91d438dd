import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { glob, mkdir, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { zip, type Entry } from './zip.ts'

const run = promisify(execFile)

/** Files and folders of the checkout that the packages of other languages are made from. */
export const languageSources = [
  ...['pyproject.toml', 'README.md', 'src'].map((part) => `sdk/python/${part}`),
  'sdk/go',
  ...['pom.xml', 'build.sh', 'src/main'].map((part) => `sdk/java/${part}`),
  ...['Cargo.toml', 'README.md', 'build.sh', 'src', 'include', 'csharp'].map((part) => `sdk/rust/${part}`),
]

/**
 * Packs the languages whose packages are their sources, so that no tool is needed.
 *
 * @param target the folder for the archives
 * @returns the names of the archives, and their versions
 */
export async function packSources(checkout: string, target: string): Promise<[string, string][]> {
  const licence = await readFile(join(checkout, 'LICENSE'))
  const ofRust = await crate(checkout, licence)
  const archives = [
    ofRust,
    // The same sources make the library for C and C++.
    { ...ofRust, file: 'licensing-c-source.tar.gz' },
    ...(await Promise.all([
      wheel(checkout, licence),
      goModule(checkout, licence),
      csharp(checkout, licence),
    ])),
  ]
  for (const { file, entries } of archives) {
    if (/\.(crate|gz)$/.test(file)) await tar(join(target, file), entries)
    else await writeFile(join(target, file), zip(entries))
  }
  return archives.map(({ file, version }) => [file, version])
}

interface Archive {
  readonly file: string
  readonly version: string
  readonly entries: readonly Entry[]
}

/** A wheel for Python (PEP 427) with the metadata of `pyproject.toml`. */
async function wheel(checkout: string, licence: Buffer): Promise<Archive> {
  const folder = join(checkout, 'sdk/python')
  const project = await readFile(join(folder, 'pyproject.toml'), 'utf8')
  const valueOf = (key: string) => new RegExp(`^${key} = "(.+)"$`, 'm').exec(project)?.[1] ?? ''
  const dependencies = /^dependencies = \[(.+)\]$/m.exec(project)?.[1]?.match(/[^", ]+/g) ?? []
  const version = valueOf('version')
  const metadata = [
    'Metadata-Version: 2.4',
    'Name: licensing',
    `Version: ${version}`,
    `Summary: ${valueOf('description')}`,
    `License-Expression: ${valueOf('license')}`,
    'License-File: LICENSE',
    `Requires-Python: ${valueOf('requires-python')}`,
    ...dependencies.map((dependency) => `Requires-Dist: ${dependency}`),
    'Description-Content-Type: text/markdown',
    '',
    await readFile(join(folder, 'README.md'), 'utf8'),
  ]
  const info = `licensing-${version}.dist-info`
  const entries = [
    ...(await filesIn(join(folder, 'src'), 'licensing/*{.py,py.typed}')),
    { path: `${info}/METADATA`, content: Buffer.from(metadata.join('\n')) },
    {
      path: `${info}/WHEEL`,
      content: Buffer.from(
        'Wheel-Version: 1.0\nGenerator: licensing\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
      ),
    },
    { path: `${info}/licenses/LICENSE`, content: licence },
  ]
  const record = entries.map(({ path, content }) => {
    const digest = createHash('sha256').update(content).digest('base64url')
    return `${path},sha256=${digest},${content.length}\n`
  })
  record.push(`${info}/RECORD,,\n`)
  return {
    file: `licensing-${version}-py3-none-any.whl`,
    version,
    entries: [...entries, { path: `${info}/RECORD`, content: Buffer.from(record.join('')) }],
  }
}

const GO_VERSION = '0.1.0'

/** A Go module, in the form of a module proxy. */
async function goModule(checkout: string, licence: Buffer): Promise<Archive> {
  const folder = join(checkout, 'sdk/go')
  const [, module = ''] = /^module (\S+)$/m.exec(await readFile(join(folder, 'go.mod'), 'utf8')) ?? []
  const files = await filesIn(folder, '{go.mod,*.md,*.go}')
  const entries = [...files, { path: 'LICENSE', content: licence }]
    .filter(({ path }) => !path.endsWith('_test.go'))
    .map(({ path, content }) => ({ path: `${module}@v${GO_VERSION}/${path}`, content }))
  return { file: 'licensing-go.zip', version: GO_VERSION, entries }
}

/** The crate, without the tests, which need files of the checkout. */
async function crate(checkout: string, licence: Buffer): Promise<Archive> {
  const folder = join(checkout, 'sdk/rust')
  const version = await crateVersion(folder)
  const files = await filesIn(folder, '{Cargo.toml,README.md,csharp/Licensing.cs,include/*,src/**/*.rs}')
  const entries = [...files, { path: 'LICENSE', content: licence }].map(({ path, content }) => ({
    path: `licensing-${version}/${path}`,
    content: path === 'Cargo.toml' ? withoutTests(content) : content,
  }))
  return { file: 'licensing.crate', version, entries }
}

function withoutTests(manifest: Buffer): Buffer {
  return Buffer.from(
    manifest.toString().replaceAll(/^(?:#.*\n)*(?:\[dev-dependencies\]|\[\[test\]\])\n(?:\w.*\n)*/gm, ''),
  )
}

async function crateVersion(folder: string): Promise<string> {
  return /^version = "(.+)"$/m.exec(await readFile(join(folder, 'Cargo.toml'), 'utf8'))?.[1] ?? ''
}

/** The wrapper for C#. Where the library was compiled, `packCompiled` replaces it by an archive that has both. */
async function csharp(checkout: string, licence: Buffer): Promise<Archive> {
  const folder = join(checkout, 'sdk/rust')
  const files = [
    ...(await filesIn(join(folder, 'csharp'), '*.cs')),
    ...(await filesIn(folder, 'README.md')),
    { path: 'LICENSE', content: licence },
  ]
  const entries = files.map(({ path, content }) => ({ path: `licensing-csharp/${path}`, content }))
  return { file: 'licensing-csharp.zip', version: await crateVersion(folder), entries }
}

/** Writes a compressed archive of these files. */
async function tar(file: string, entries: readonly Entry[]): Promise<void> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'licensing-crate-'))
  for (const { path, content } of entries) {
    await mkdir(dirname(join(folder.path, path)), { recursive: true })
    await writeFile(join(folder.path, path), content)
  }
  await run('tar', [
    '-czf',
    file,
    '-C',
    folder.path,
    ...new Set(entries.map(({ path }) => path.split('/')[0]!)),
  ])
}

async function filesIn(folder: string, pattern: string): Promise<Entry[]> {
  const paths = (
    await Array.fromAsync(glob(pattern, { cwd: folder, exclude: (path) => path.includes('__pycache__') }))
  ).toSorted()
  return Promise.all(paths.map(async (path) => ({ path, content: await readFile(join(folder, path)) })))
}

/**
 * Packs a language that needs a compiler with its `build.sh`, if the compiler is installed. What was compiled before is kept in
 * the user's folder for caches.
 *
 * @param say receives a line if the language is left out
 */
export async function packCompiled(
  { folder, tool }: { readonly folder: string; readonly tool: string },
  target: string,
  say: (line: string) => void,
): Promise<void> {
  const caches = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const env = { ...process.env, CARGO_TARGET_DIR: join(caches, 'licensing-sdk', 'release') }
  try {
    await run(tool, ['--version'])
    await run('sh', [join(folder, 'build.sh'), target], { env })
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string }
    const reason = stderr.trim().split('\n').at(-1) || `${tool} is not installed`
    say(`not packed: ${folder}: ${reason}`)
  }
}
