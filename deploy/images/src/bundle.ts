import { build } from 'esbuild'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { components } from './components.ts'
import type { Component } from './components.ts'

// Makes dist/<component>/: one file a program, migrations, and the few files that a library reads at run time.
// In the image it is /app; programs are /app/dist/src/<program>.mjs.
const checkout = fileURLToPath(new URL('../../..', import.meta.url))
const output = fileURLToPath(new URL('../dist', import.meta.url))

// Libraries that are CommonJS inside find what they expect of Node.
const banner = `import { createRequire as __createRequire } from 'node:module';
import { fileURLToPath as __fileURLToPath } from 'node:url';
const require = __createRequire(import.meta.url);
const __filename = __fileURLToPath(import.meta.url);
const __dirname = __fileURLToPath(new URL('.', import.meta.url)).slice(0, -1);`

const wanted = process.argv.slice(2)
const chosen = components.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
if (chosen.length === 0) {
  process.stderr.write(`no such component; there are ${components.map(({ name }) => name).join(', ')}\n`)
  process.exit(2)
}
for (const component of chosen) await bundle(component)

async function bundle(component: Component): Promise<void> {
  const folder = join(output, component.name)
  await rm(folder, { recursive: true, force: true })
  await mkdir(join(folder, 'dist/src'), { recursive: true })
  const result = await build({
    entryPoints: Object.entries(component.programs).map(([name, file]) => ({
      in: join(checkout, component.folder, file),
      out: name,
    })),
    outdir: join(folder, 'dist/src'),
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    target: 'node26',
    format: 'esm',
    banner: { js: banner },
    // Names of classes and functions are read in logs and traces.
    keepNames: true,
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'linked',
    metafile: true,
    logLevel: 'warning',
    absWorkingDir: join(checkout, component.folder),
  })
  for (const [to, from] of Object.entries(component.migrations)) {
    await cp(join(checkout, from), join(folder, 'dist', to), { recursive: true })
  }
  await copyHealthContract(folder)
  await cp(new URL('health-check.mjs', import.meta.url), join(folder, 'dist/src/health-check.mjs'))
  await writeFile(join(folder, 'packages.json'), `${JSON.stringify(packagesOf(result.metafile), null, 2)}\n`)
  const bytes = Object.values(result.metafile.outputs).reduce((sum, { bytes: size }) => sum + size, 0)
  process.stdout.write(`${component.name}: ${(bytes / 1024 / 1024).toFixed(1)} MiB\n`)
}

/** grpc-health-check reads its .proto file from two folders above its own. */
async function copyHealthContract(folder: string): Promise<void> {
  const fromGrpc = createRequire(join(checkout, 'packages/grpc/package.json'))
  const library = dirname(fromGrpc.resolve('grpc-health-check/package.json'))
  await cp(join(library, 'proto'), join(folder, 'proto'), { recursive: true })
}

/** What is in the bundle, name and version, for a bill of materials. */
function packagesOf(metafile: { inputs: Record<string, unknown> }): string[] {
  const found = new Set<string>()
  for (const path of Object.keys(metafile.inputs)) {
    const match = /node_modules\/\.pnpm\/((?:@[^+/]+\+)?[^@/]+@[0-9][^_(/]*)/.exec(path)
    if (match?.[1]) found.add(match[1].replace('+', '/'))
  }
  return [...found].toSorted()
}
