import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'
import { expect, test } from 'vitest'

/** Files with SQL that are not `…-queries.ts`, each with the reason. */
const exceptions: [RegExp, string][] = [
  [
    /^packages\/database\/src\/(?:connect|migrate|prepare)\.ts$/,
    'they open and prepare the database of queries, or ask only for its time',
  ],
  [/^packages\/database\/src\/transaction\.ts$/, 'it begins and ends the transactions that queries run in'],
  [/^tools\/local-servers\/src\/databases\.ts$/, 'it creates databases and roles, and reads no table'],
  [/^tools\/local-servers\/src\/base-backup\.ts$/, 'its command is one of the replication protocol'],
]

const isQueries = (file: string) => file.endsWith('-queries.ts')
const isForTests = (file: string) => file.endsWith('.test.ts') || file.includes('/testing/')

// Tags that are not SQL: pages and raw texts.
const otherTags = ['html', 'raw']

/** The beginnings of all statements in a source: tagged templates, and texts passed to `unsafe`. */
function statementsIn(source: string): string[] {
  const found = [...source.matchAll(/\.unsafe\(.{0,30}/g)].map(([call]) => call)
  const other = /\/\/.*|\/\*[\s\S]*?\*\/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[\s\S]/y
  /** Reads code up to its closing brace, including templates. @returns the position after it */
  const readCode = (from: number): number => {
    for (let at = from, open = 0; at < source.length; at = other.lastIndex) {
      other.lastIndex = at
      const [token] = other.exec(source)!
      if (token === '`') other.lastIndex = readTemplate(at)
      else if (token === '{') open += 1
      else if (token === '}' && open === 0) return at + 1
      else if (token === '}') open -= 1
    }
    return source.length
  }
  const readTemplate = (from: number): number => {
    // A tag, or its type arguments, is directly before its template.
    const [, tag] = /([\w$]+)(?:<[^`;]*>)?$/.exec(source.slice(Math.max(0, from - 300), from)) ?? []
    if (tag !== undefined && !otherTags.includes(tag)) found.push(source.slice(from, from + 40))
    for (let at = from + 1; at < source.length; at += 1) {
      if (source[at] === '\\') at += 1
      else if (source[at] === '`') return at + 1
      else if (source.startsWith('${', at)) at = readCode(at + 2) - 1
    }
    return source.length
  }
  readCode(0)
  return found
}

const files = execFileSync(
  'git',
  [
    'ls-files',
    'services/*/src/*.ts',
    'packages/*/src/*.ts',
    'gateway/src/*.ts',
    'tools/local-servers/src/*.ts',
  ],
  { cwd: CHECKOUT, encoding: 'utf8' },
)
  .split('\n')
  .filter((file) => file !== '' && existsSync(join(CHECKOUT, file)) && !isForTests(file))
const read = (file: string) => readFileSync(join(CHECKOUT, file), 'utf8')

test('SQL is only in files of queries', () => {
  const holding = files
    .map((file) => ({ file, statements: statementsIn(read(file)) }))
    .filter(({ statements }) => statements.length > 0)
  const outside = holding.filter(({ file }) => !isQueries(file))
  expect(holding.filter(({ file }) => isQueries(file)).length).toBeGreaterThan(30)
  expect(outside.filter(({ file }) => !exceptions.some(([exempt]) => exempt.test(file)))).toEqual([])
  // An exception that is no longer needed must be removed.
  for (const [exempt] of exceptions) {
    expect({ exempt, used: outside.some(({ file }) => exempt.test(file)) }).toEqual({ exempt, used: true })
  }
})

/** Whether a source passes rows to a statement, either as JSON or as an array for each column. */
function passesRows(source: string): boolean {
  const parameter = /\$\{(?:[^{}]|\{[^{}]*\})*\}/g
  return /recordset\(|unnest\((?:[^(),]|\([^()]*\))*,/.test(source.replaceAll(parameter, '?'))
}

test('statements get rows only from rowsOf', () => {
  const passing = files.filter((file) => passesRows(read(file)))
  expect(passing).toEqual([
    'packages/database/src/row-queries.ts',
    // Rows that move between cells stay a text, because JavaScript would round large numbers.
    'packages/moves/src/account-row-queries.ts',
  ])
  expect(passesRows('from unnest(${rows.map(({ id }) => id)}::text[], ${ends}::int[]) as r (id, ends)')).toBe(
    true,
  )
  expect(passesRows('from unnest(${rows.map(({ id }) => id)}::text[]) as id, plans')).toBe(false)
})

test('a statement with any tag is found, and texts and comments are not mistaken for statements', () => {
  expect(statementsIn('await connection<{ id: string }[]>`select id from licences`')).toHaveLength(1)
  expect(statementsIn('const order = tx`l.id`')).toHaveLength(1)
  expect(statementsIn("await tx.unsafe('drop table x')")).toHaveLength(1)
  expect(statementsIn('log.info(`it is ${name}`) // sql`select 1`\nconst text = `plain`')).toEqual([])
  expect(statementsIn('const page = html`${names.map((name) => `${name}`)}` // `it`')).toEqual([])
  expect(statementsIn('const page = `${await sql`select 1`}`')).toHaveLength(1)
})
