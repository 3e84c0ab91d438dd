import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Plugin } from 'esbuild'
import { CHECKOUT, DATABASE_SERVICES, mainOf } from '@licensing/local-servers/services'
import { SIMULATOR_MAIN } from '@licensing/local-servers/stripe'

const cache = join(CHECKOUT, 'node_modules', '.cache', 'programs')
const latestFile = join(cache, 'latest.json')
/** Older bundles are kept, because a running stack restarts a crashed service from its own bundle. */
const keptBundles = 3

interface Bundle {
  /** Folder in the cache. */
  folder: string
  /** Bundled files of the checkout, without libraries. */
  inputs: string[]
  hash: string | undefined
}

/**
 * Bundles all programs of a stack together, unless they were bundled from the same sources. The start of a bundled program
 * takes 60 % of the CPU time of a start from the sources, with or without the compile cache.
 *
 * @param say receives a line if there is something to bundle
 * @returns the bundled file of a program's main file
 */
export async function bundlePrograms(say: (line: string) => void): Promise<(main: string) => string> {
  const known = await readFile(latestFile, 'utf8').catch(() => undefined)
  let bundle = known === undefined ? undefined : (JSON.parse(known) as Bundle)
  if (bundle === undefined || hashOf(bundle.inputs) !== bundle.hash) {
    say('bundling the programs')
    try {
      bundle = await build()
    } catch (error) {
      say(
        `could not bundle the programs, so their sources run: ${error instanceof Error ? error.message : String(error)}`,
      )
      return (main) => main
    }
  }
  const { folder } = bundle
  return (main) => join(cache, folder, `${nameOf(main)}.mjs`)
}

async function build(): Promise<Bundle> {
  // Garbage collection took a third of esbuild's CPU time. Its process is short-lived, so it may use more memory instead.
  process.env['GOGC'] ??= '400'
  const esbuild = await import('esbuild')
  const sources = new Map<string, string>()
  await mkdir(cache, { recursive: true })
  const folder = `${Date.now()}-${process.pid}`
  const mains = [...DATABASE_SERVICES.map(mainOf), mainOf('gateway'), SIMULATOR_MAIN]
  const { metafile } = await esbuild.build({
    entryPoints: mains.map((main) => ({ in: main, out: nameOf(main) })),
    outdir: join(cache, folder),
    outExtension: { '.js': '.mjs' },
    bundle: true,
    // Modules that several programs use are written once.
    splitting: true,
    platform: 'node',
    target: `node${process.versions.node}`,
    format: 'esm',
    // Defines `require`, which bundled CommonJS libraries use.
    banner: {
      js: `import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);`,
    },
    plugins: [keepSourcePaths(sources)],
    keepNames: true,
    minifySyntax: true,
    minifyWhitespace: true,
    metafile: true,
    logLevel: 'silent',
    absWorkingDir: CHECKOUT,
  })
  await esbuild.stop()
  const inputs = Object.keys(metafile.inputs).filter((path) => !path.includes('node_modules/'))
  // The hash is of the sources that were bundled, because a file may have been edited since.
  const bundle = { folder, inputs, hash: hashOf(inputs, (path) => sources.get(path) ?? readText(path)) }
  await writeFile(`${latestFile}.${process.pid}`, JSON.stringify(bundle))
  await rename(`${latestFile}.${process.pid}`, latestFile)
  await removeOld()
  return bundle
}

/**
 * Makes bundled modules use the paths of their sources, so that they find migrations and pages in the checkout.
 *
 * @param sources receives the text of each file of the checkout, by path
 */
function keepSourcePaths(sources: Map<string, string>): Plugin {
  const withSourcePaths = (contents: string, path: string) =>
    contents
      .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
      .replaceAll('__dirname', JSON.stringify(dirname(path)))
  return {
    name: 'source paths',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (path.includes('/node_modules/')) return undefined
        const contents = await readFile(path, 'utf8')
        sources.set(relative(CHECKOUT, path), contents)
        return { contents: withSourcePaths(contents, path), loader: 'ts' }
      })
      onLoad({ filter: /@fastify\/swagger-ui\/.*\.js$/ }, async ({ path }) => ({
        contents: withSourcePaths(await readFile(path, 'utf8'), path),
        loader: 'js',
      }))
    },
  }
}

/** The name of a program is the folder of its package. */
function nameOf(main: string): string {
  return relative(CHECKOUT, main).split('/').at(-3)!
}

/**
 * A hash of the files, the lock file, this file and the version of Node.
 *
 * @returns undefined if a file was removed
 */
function hashOf(inputs: string[], readSource = readText): string | undefined {
  const hash = createHash('sha256').update(process.version)
  try {
    for (const path of inputs) hash.update(`${path}\n`).update(readSource(path))
    for (const path of ['pnpm-lock.yaml', 'deploy/local/src/bundle.ts']) hash.update(readText(path))
  } catch {
    return undefined
  }
  return hash.digest('hex')
}

function readText(path: string): string {
  return readFileSync(join(CHECKOUT, path), 'utf8')
}

async function removeOld(): Promise<void> {
  const folders = (await readdir(cache)).filter((name) => /^\d+-\d+$/.test(name)).sort()
  for (const name of folders.slice(0, -keptBundles))
    await rm(join(cache, name), { recursive: true, force: true })
}
