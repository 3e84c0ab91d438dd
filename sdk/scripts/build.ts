import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { dirname } from 'node:path'

// Builds `dist` from nothing. Packing is pnpm's: it puts `publishConfig` and the catalogue's versions in place.
if (
  process.env['npm_lifecycle_event'] === 'prepack' &&
  !process.env['npm_config_user_agent']?.startsWith('pnpm')
) {
  throw new Error(
    'pack and publish this package with pnpm: npm would leave exports that point to the sources',
  )
}
const folder = dirname(import.meta.dirname)
rmSync(`${folder}/dist`, { recursive: true, force: true })
execFileSync('tsc', ['-p', `${folder}/tsconfig.build.json`], { stdio: 'inherit' })
