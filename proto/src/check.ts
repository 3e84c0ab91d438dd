import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Runs buf lint and, from the first release on, buf breaking against main (on main: against the previous commit). Checks that
// gen/ is up to date.
const root = fileURLToPath(new URL('..', import.meta.url))
const env = { ...process.env, PATH: `${root}node_modules/.bin:${process.env.PATH ?? ''}` }
const run = (args: string[]) => execFileSync('buf', args, { cwd: root, env, stdio: 'inherit' })

run(['lint'])
run(['format', '--diff', '--exit-code'])
breaking()
upToDate()
console.log('proto: lint, breaking and generated code are fine')

function breaking(): void {
  const base = process.env.BREAKING_AGAINST ?? earlierContracts()
  if (base) run(['breaking', '--against', base])
  else
    console.log(
      'proto: buf breaking is skipped, because there is no release, or no earlier main, to compare with',
    )
}

/** The main branch of this repository or, on main, the previous commit. Undefined before the first release. */
function earlierContracts(): string | undefined {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' })
  const hasRelease = /^## \d/m.test(readFileSync(`${root}../CHANGELOG.md`, 'utf8'))
  if (!hasRelease) return undefined
  for (const ref of ['origin/main', 'main', 'HEAD~1']) {
    try {
      const commit = git('rev-parse', '--verify', '--quiet', ref).trim()
      if (commit === git('rev-parse', 'HEAD').trim()) continue
      git('cat-file', '-e', `${commit}:proto/buf.yaml`)
      return `../.git#ref=${commit},subdir=proto`
    } catch {
      continue
    }
  }
  return undefined
}

function upToDate(): void {
  const fresh = mkdtempSync(join(tmpdir(), 'proto-gen-'))
  try {
    run(['generate', '--output', fresh])
    const files = (folder: string) =>
      readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(folder.length))
        .sort()
    const committed = join(root, 'gen')
    const generated = join(fresh, 'gen')
    const differing = files(generated).filter((file) => {
      try {
        return readFileSync(committed + file, 'utf8') !== readFileSync(generated + file, 'utf8')
      } catch {
        return true
      }
    })
    if (differing.length > 0 || files(committed).length !== files(generated).length) {
      throw new Error(
        `generated code differs (${differing.join(', ')}): run \`pnpm --filter @licensing/proto generate\``,
      )
    }
  } finally {
    rmSync(fresh, { recursive: true })
  }
}
