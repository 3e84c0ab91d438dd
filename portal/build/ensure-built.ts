import { buildOnce, checkout, compressFiles, runProgram } from '@licensing/builds/build-once'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const portal = join(checkout, 'portal')
const sources = [
  ...[
    'src',
    'customer',
    'build',
    'index.html',
    'package.json',
    'tsconfig.json',
    'vite.config.ts',
    'vite.customer.config.ts',
  ].map((path) => `portal/${path}`),
  'sdk/typescript/src',
  'packages/builds/src',
  'packages/csv/src',
  'packages/formats/src',
  'packages/money/src',
  'pnpm-lock.yaml',
  'tsconfig.base.json',
]

/**
 * Builds `portal/dist`, and in it the page for customers, with a compressed copy of each file beside it, unless it was already built from the current sources.
 *
 * @param say is called with a line when a build begins
 * @param signal ends the build
 */
export async function ensureBuilt(say: (line: string) => void, signal?: AbortSignal): Promise<void> {
  const vite = join(
    dirname(createRequire(join(portal, 'package.json')).resolve('vite/package.json')),
    'bin/vite.js',
  )
  await buildOnce(
    {
      dist: join(portal, 'dist'),
      sources,
      announcement: 'building the portal',
      make: async (fresh) => {
        const build = (config: string, outDir: string) =>
          runProgram(
            [vite, 'build', '-c', config, '--outDir', outDir, '--emptyOutDir', '--logLevel', 'warn'],
            portal,
            signal,
          )
        await build('vite.config.ts', fresh)
        await build('vite.customer.config.ts', join(fresh, 'customer'))
        await compressFiles(fresh)
      },
    },
    say,
  )
}
