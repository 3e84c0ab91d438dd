import { ensurePacked } from '@licensing/downloads/build'
import { ensureGuides } from '@licensing/guides/build'
import { ensureBuilt } from '@licensing/portal/build'
import { build } from 'esbuild'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { billOfMaterials } from './bill-of-materials.ts'
import { components } from './components.ts'
import type { Component, LibraryFiles } from './components.ts'

// Builds dist/<component>/: one file for each program, migrations, and files that a library reads at run time. In the image
// the folder is /app, and programs are /app/dist/src/<program>.mjs. `--to` sets another folder than dist.
const checkout = fileURLToPath(new URL('../../..', import.meta.url))
const { values: options, positionals: wanted } = parseArgs({
  options: {
    to: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
  },
  allowPositionals: true,
})
const output = options.to

// Defines `require`, which bundled CommonJS libraries use.
const banner = `import { createRequire as __createRequire } from 'node:module';
import { fileURLToPath as __fileURLToPath } from 'node:url';
const require = __createRequire(import.meta.url);
const __filename = __fileURLToPath(import.meta.url);
const __dirname = __fileURLToPath(new URL('.', import.meta.url)).slice(0, -1);`

const chosen = components.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
if (chosen.length === 0) {
  process.stderr.write(`no such component; there are ${components.map(({ name }) => name).join(', ')}\n`)
  process.exit(2)
}
if (chosen.some(({ built }) => 'portal/dist' in built)) {
  await ensureBuilt((line) => process.stdout.write(`${line}\n`))
  await ensureGuides((line) => process.stdout.write(`${line}\n`))
  await ensurePacked((line) => process.stdout.write(`${line}\n`))
}
for (const component of chosen) await bundle(component)

async function bundle(component: Component): Promise<void> {
  const { name, programs, migrations, built, served, libraryFiles } = component
  const folder = join(output, name)
  await rm(folder, { recursive: true, force: true })
  await mkdir(join(folder, 'dist/src'), { recursive: true })
  const result = await build({
    entryPoints: Object.entries(programs).map(([out, file]) => ({ in: join(checkout, file), out })),
    outdir: join(folder, 'dist/src'),
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    target: 'node26',
    format: 'esm',
    banner: { js: banner },
    define: { COMPONENT: JSON.stringify(name) },
    // Logs and traces show names of classes and functions.
    keepNames: true,
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'linked',
    metafile: true,
    logLevel: 'warning',
    absWorkingDir: checkout,
  })
  const inputs = Object.keys(result.metafile.inputs)
  for (const [to, from] of Object.entries(migrations)) {
    await cp(join(checkout, from), join(folder, 'dist', to), { recursive: true })
  }
  for (const [to, from] of Object.entries(built)) {
    await cp(join(checkout, from), join(folder, to), { recursive: true })
    inputs.push(...(JSON.parse(await readFile(join(checkout, from, '.inputs.json'), 'utf8')) as string[]))
  }
  for (const [to, from] of Object.entries(served)) {
    await cp(join(checkout, from), join(folder, to), { recursive: true })
  }
  for (const files of libraryFiles) await copyLibraryFiles(files, folder)
  await cp(new URL('health-check.mjs', import.meta.url), join(folder, 'dist/src/health-check.mjs'))
  const bill = await billOfMaterials({ name, version: await versionOf(component) }, checkout, inputs)
  await writeFile(join(folder, 'bom.json'), `${JSON.stringify(bill, null, 2)}\n`)
  const bytes = Object.values(result.metafile.outputs).reduce((sum, { bytes: size }) => sum + size, 0)
  process.stdout.write(`${name}: ${(bytes / 1024 / 1024).toFixed(1)} MiB\n`)
}

async function copyLibraryFiles({ user, library, from, to }: LibraryFiles, folder: string): Promise<void> {
  const resolve = createRequire(join(checkout, user, 'package.json')).resolve
  const [root] = resolve(library).split(`/node_modules/${library}/`)
  await cp(join(root!, 'node_modules', library, from), join(folder, to), { recursive: true })
}

async function versionOf({ folder }: Component): Promise<string> {
  const text = await readFile(join(checkout, folder, 'package.json'), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
