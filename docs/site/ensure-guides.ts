import { buildOnce, checkout, compressFiles, runProgram } from '@licensing/builds/build-once'
import { cp, lstat, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { listPage, overview, sections } from './contents.ts'

const docs = join(checkout, 'docs')
const site = fileURLToPath(new URL('.', import.meta.url))
const sources = [
  'docs/guides',
  'sdk/python/README.md',
  'sdk/go/README.md',
  'sdk/java/README.md',
  'sdk/rust/README.md',
  'docs/operations',
  'docs/site',
  'packages/builds/src',
  'pnpm-lock.yaml',
  'tsconfig.base.json',
]

/**
 * Makes `docs/site/dist`, unless it is of these sources already. A file's path in it is its address at the gateway: the
 * pages, the Markdown that they are written in, and `llms.txt`.
 *
 * @param say receives a line when there is something to build
 * @param signal gives up
 */
export async function ensureGuides(say: (line: string) => void, signal?: AbortSignal): Promise<void> {
  await buildOnce(
    {
      dist: join(site, 'dist'),
      sources,
      announcement: 'building the guides',
      make: (fresh, work) => make(fresh, join(work, 'site'), signal),
    },
    say,
  )
}

async function make(fresh: string, staged: string, signal: AbortSignal | undefined): Promise<void> {
  // VitePress writes beside its configuration: each build has a copy.
  for (const name of ['.vitepress', 'contents.ts']) {
    await cp(join(site, name), join(staged, name), { recursive: true })
  }
  await copyGuides(staged)
  await writeFile(join(staged, 'docs/guides/index.md'), listPage(join(staged, 'docs')))
  const vitepress = join(
    dirname(createRequire(import.meta.url).resolve('vitepress/package.json')),
    'bin/vitepress.js',
  )
  await runProgram([vitepress, 'build', staged, '--outDir', fresh], site, signal)
  await copyGuides(fresh)
  await writeFile(join(fresh, 'llms.txt'), overview(join(fresh, 'docs')))
  // The gateway answers for an unknown address.
  await rm(join(fresh, '404.html'))
  await compressFiles(fresh)
}

/** A file of another folder (the changelog, an SDK's README) links to neighbours that the site does not have. */
const withoutRelativeLinks = (text: string) => text.replaceAll(/\[([^\]]+)\]\((?!https?:|[/#])[^)]*\)/g, '$1')

async function copyGuides(folder: string): Promise<void> {
  for (const path of sections.flatMap(({ pages }) => pages)) {
    const file = join(folder, 'docs', `${path}.md`)
    await mkdir(dirname(file), { recursive: true })
    const page = join(docs, `${path}.md`)
    const text = await readFile(page, 'utf8')
    const isElsewhere = (await lstat(page)).isSymbolicLink()
    await writeFile(file, isElsewhere ? withoutRelativeLinks(text) : text)
  }
}
