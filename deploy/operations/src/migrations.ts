import { CHECKOUT } from '@licensing/local-servers/services'
import { createHash } from 'node:crypto'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** SHA-256 of each migration of a release, by its path. */
type Released = Readonly<Record<string, string>>

const file = new URL('../released-migrations.json', import.meta.url)

export const released = JSON.parse(readFileSync(file, 'utf8')) as Released

/** All migrations of the checkout, by their path. */
export const migrations = Object.fromEntries(
  globSync('{services,packages}/*/migrations/**/*.sql', { cwd: CHECKOUT })
    .toSorted()
    .map((path) => [path, readFileSync(join(CHECKOUT, path), 'utf8')]),
)

export const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')

/** Statements with which an earlier release cannot work, or which block writes to a large table. */
const forbidden = [
  /\bdrop (table|column)\b|\brename\b|\bset not null\b|\balter column \w+ (set data )?type\b/gi,
  /\badd column \w+(?![^,;]*\bdefault\b)[^,;]*\bnot null\b/gi,
  /\badd (constraint \w+ )?(check|foreign key|unique|primary key|exclude)\b(?![^;]*\bnot valid\b)/gi,
  /\badd column [^,;]*\b(check|references|unique|primary key)\b/gi,
  /\bcreate (unique )?index (?!concurrently)[^;]*? on (?<table>\w+)/gi,
]

/** The problems of migrations: a released one was edited, removed or overtaken, or a new one breaks the rules for upgrades. */
export function problemsOf(known: Released, present: Readonly<Record<string, string>>): string[] {
  const problems: string[] = []
  for (const [path, hash] of Object.entries(known)) {
    const text = present[path]
    if (text === undefined) problems.push(`${path} was released and is missing`)
    else if (hashOf(text) !== hash)
      problems.push(`${path} was released and was edited: write a new migration`)
  }
  for (const [path, text] of Object.entries(present)) {
    const folder = path.slice(0, path.lastIndexOf('/') + 1)
    const earlier = Object.keys(known).filter((each) => each.startsWith(folder))
    if (path in known || earlier.length === 0) continue
    if (earlier.some((each) => each > path))
      problems.push(`${path} has a lower number than a released migration`)
    if (text.includes('-- contract:')) continue
    for (const { 0: found, groups } of forbidden.flatMap((pattern) => [...text.matchAll(pattern)])) {
      if (groups?.['table'] && new RegExp(`\\bcreate table ${groups['table']}\\b`, 'i').test(text)) continue
      problems.push(`${path}: “${found}” without a line “-- contract: …”`)
    }
  }
  return problems
}

// `npm run release:freeze`: from now on the present migrations are never edited.
if (import.meta.main) {
  const hashes = Object.entries(migrations).map(([path, text]) => [path, hashOf(text)])
  writeFileSync(file, `${JSON.stringify(Object.fromEntries(hashes), null, 2)}\n`)
}
