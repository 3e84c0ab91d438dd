import { build } from 'esbuild'
import { execFile } from 'node:child_process'
import { chmod, cp, mkdir, mkdtempDisposable, readdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const require = createRequire(import.meta.url)

export interface Published {
  /** The package is `@licensing/<name>`. */
  readonly name: string
  /** Folder in the checkout. */
  readonly folder: string
  /** `compiled`: ES modules. `both`: ES modules and CommonJS. `bundled`: a program in one file with its dependencies. */
  readonly made: 'compiled' | 'both' | 'bundled'
  /** Further files and folders to copy, besides the README and the licence. */
  readonly alsoHas: readonly string[]
}

/** The packages for other projects. */
export const publishedPackages: readonly Published[] = [
  { name: 'sdk', folder: 'sdk/typescript', made: 'both', alsoHas: ['../vectors'] },
  { name: 'cli', folder: 'cli', made: 'bundled', alsoHas: [] },
  { name: 'testing', folder: 'testing', made: 'compiled', alsoHas: [] },
]

interface Manifest {
  name: string
  version: string
  private?: boolean
  scripts?: object
  devDependencies?: object
  dependencies?: Readonly<Record<string, string>>
  publishConfig: Readonly<Record<string, unknown>>
}

/**
 * Writes the files of a package, as they would be published, to a folder.
 *
 * @returns its version
 */
export async function stagePackage(published: Published, checkout: string, stage: string): Promise<string> {
  const source = join(checkout, published.folder)
  await mkdir(stage, { recursive: true })
  for (const name of ['README.md', ...published.alsoHas]) {
    await cp(join(source, name), join(stage, basename(name)), { recursive: true })
  }
  await cp(join(checkout, 'LICENSE'), join(stage, 'LICENSE'))
  const manifest = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as Manifest
  await writeFile(join(stage, 'package.json'), `${JSON.stringify(publishedManifest(manifest), null, 2)}\n`)
  await makeFiles(published, source, join(stage, 'dist'))
  return manifest.version
}

/** Builds JavaScript for Node 20 and later. Compiled packages have types. */
export async function makeFiles({ made }: Published, source: string, dist: string): Promise<void> {
  if (made === 'bundled') return bundle(source, join(dist, 'main.js'))
  await compile(source, dist)
  if (made === 'both') await addCommonJs(source, dist)
}

/** The published package.json: like pnpm, replaces fields by those of `publishConfig`. */
function publishedManifest(manifest: Manifest): object {
  const { scripts: _scripts, devDependencies: _dev, publishConfig, ...kept } = manifest
  const { access, provenance, ...replaced } = publishConfig
  const result = { ...kept, ...replaced, publishConfig: { access, provenance } }
  const here = Object.values(result.dependencies ?? {}).filter((range) =>
    /^(?:workspace|catalog):/.test(range),
  )
  if (here.length > 0) throw new Error(`${manifest.name} would need a checkout: ${here.join(', ')}`)
  return result
}

async function compile(source: string, outDir: string): Promise<void> {
  const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin/tsc')
  const types = (name: string) => dirname(require.resolve(`@types/${name}/package.json`))
  await using folder = await mkdtempDisposable(join(tmpdir(), 'licensing-compile-'))
  const project = join(folder.path, 'tsconfig.json')
  // When an image is built, the development dependencies of the package are not installed, so their types are taken from
  // this package.
  const compilerOptions = {
    outDir,
    typeRoots: [dirname(types('node'))],
    paths: { react: [join(types('react'), 'index.d.ts')] },
  }
  await writeFile(project, JSON.stringify({ extends: join(source, 'tsconfig.build.json'), compilerOptions }))
  await run(process.execPath, [compiler, '-p', project])
}

/**
 * Writes a `.cjs` next to each exported module. It contains everything that it imports, so that `require` loads no ES module.
 * Its types are copies of the ES modules' types, with names that TypeScript recognizes as CommonJS.
 */
async function addCommonJs(source: string, dist: string): Promise<void> {
  const { exports } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as {
    exports: Record<string, string>
  }
  await build({
    entryPoints: Object.values(exports).map((module) => join(source, module)),
    outdir: dist,
    outExtension: { '.js': '.cjs' },
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    external: ['react', '@noble/ed25519'],
    legalComments: 'eof',
    logLevel: 'warning',
  })
  const types = (await readdir(dist, { recursive: true })).filter((file) => file.endsWith('.d.ts'))
  for (const file of types) {
    const text = await readFile(join(dist, file), 'utf8')
    const forCommonJs = text.replaceAll(/((?:from |import\()['"]\.[^'"]*)\.ts(?=['"])/g, '$1.cjs')
    await writeFile(join(dist, file.replace(/\.d\.ts$/, '.d.cts')), forCommonJs)
  }
}

// Defines `require`, which bundled CommonJS libraries use.
const banner = `#!/usr/bin/env node
import { createRequire as __createRequire } from 'node:module';
const require = __createRequire(import.meta.url);`

async function bundle(source: string, outfile: string): Promise<void> {
  await build({
    entryPoints: [join(source, 'src/main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    banner: { js: banner },
    legalComments: 'eof',
    // The dependencies of a bundled program are development dependencies of its package. When an image is built, they are
    // installed only here.
    nodePaths: [fileURLToPath(new URL('../node_modules', import.meta.url))],
    logLevel: 'warning',
  })
  await chmod(outfile, 0o755)
}
