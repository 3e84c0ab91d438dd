import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { makeFiles, publishedPackages } from './packages.ts'

// Before a package is packed or published from its own folder: `node prepack.ts cli` makes `cli/dist`.
const published = publishedPackages.find(({ folder }) => folder === process.argv[2])
if (!published) throw new Error(`name one of ${publishedPackages.map(({ folder }) => folder).join(', ')}`)
const source = fileURLToPath(new URL(`../../../${published.folder}`, import.meta.url))
await rm(`${source}/dist`, { recursive: true, force: true })
await makeFiles(published, source, `${source}/dist`)
