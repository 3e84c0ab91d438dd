import { cp, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeFiles, publishedPackages } from './packages.ts'

if (
  process.env['npm_lifecycle_event'] === 'prepack' &&
  !process.env['npm_config_user_agent']?.startsWith('pnpm')
) {
  throw new Error(
    'pack and publish this package with pnpm: npm would leave exports that point to the sources',
  )
}
// Runs before a package is packed or published from its own folder: `node prepack.ts cli` builds `cli/dist`.
const published = publishedPackages.find(({ name }) => name === process.argv[2])
if (!published) throw new Error(`name one of ${publishedPackages.map(({ name }) => name).join(', ')}`)
const source = fileURLToPath(new URL(`../../../${published.folder}`, import.meta.url))
await rm(`${source}/dist`, { recursive: true, force: true })
await makeFiles(published, source, `${source}/dist`)
for (const name of published.alsoHas)
  await cp(join(source, name), join(source, basename(name)), { recursive: true })
