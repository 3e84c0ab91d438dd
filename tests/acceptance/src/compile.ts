import { CHECKOUT } from '@licensing/local-servers/services'
import { execFile } from 'node:child_process'
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'

// In `node_modules`, so that the files find the packages that this folder depends on.
const modules = fileURLToPath(new URL('../node_modules', import.meta.url))

/** Compiles TypeScript against the types of the published packages. @returns the complaints of the compiler */
export async function complaintsAbout(
  sources: Record<string, string>,
  options: object = {},
): Promise<string> {
  await mkdir(modules, { recursive: true })
  await using folder = await mkdtempDisposable(join(modules, '.compiled-'))
  const write = (name: string, text: string) => writeFile(join(folder.path, name), text)
  // `export {}` makes each file a module, even if it imports nothing. Declarations of modules must not be in one.
  for (const [name, source] of Object.entries(sources)) {
    await write(name, name.endsWith('.d.ts') ? source : `${source}\nexport {}\n`)
  }
  await write('package.json', '{ "type": "module" }')
  const compilerOptions = { types: ['node'], ...options }
  const project = { extends: join(CHECKOUT, 'tsconfig.base.json'), compilerOptions, include: ['*'] }
  await write('tsconfig.json', JSON.stringify(project))
  const compiler = join(CHECKOUT, 'node_modules/.bin/tsc')
  return promisify(execFile)(compiler, ['-p', folder.path], { cwd: folder.path }).then(
    () => '',
    ({ stdout }: { stdout: string }) => stdout,
  )
}
