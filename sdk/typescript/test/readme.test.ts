import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { REFUSALS } from '../src/product/calls.ts'
import * as reasons from '../src/product/reasons.ts'
import * as record from '../src/product/record.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')

/** The tables under a heading, as rows of trimmed cells. The first row is the head. */
function tablesUnder(heading: string): string[][][] {
  const [, , text = ''] = new RegExp(`^(#+) ${heading}$([^]*?)(?=^##)`, 'm').exec(readme) ?? []
  const blocks = text.match(/(?:^\|.*\|\n)+/gm) ?? []
  return blocks.map((block) =>
    block
      .trim()
      .split('\n')
      .filter((row) => !/^\|[ -]+\|/.test(row.replaceAll('- | -', '--')))
      .map((row) =>
        row
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.trim()),
      ),
  )
}

/** The words in code marks, outside of parentheses. */
function wordsIn(cell = ''): string[] {
  return [...cell.replaceAll(/\([^)]*\)/g, '').matchAll(/`([^`]+)`/g)].map(([, word = '']) => word)
}

/** The rows below the head of a table. */
function rowsOf([, ...rows]: string[][] = []): string[][] {
  return rows
}

describe('the tables of the README', () => {
  it('name the statuses of the code', () => {
    const [table] = tablesUnder('The table of states')
    const named = rowsOf(table).flatMap(([, status]) => wordsIn(status))
    expect(new Set(named)).toEqual(new Set(reasons.statuses))
  })

  it('name the reasons, problems and operations of the code', () => {
    const [table] = tablesUnder('Reasons')
    const named = Object.fromEntries(rowsOf(table).map(([kind, , words]) => [kind, wordsIn(words)]))
    expect(named).toEqual({
      refusal: reasons.refusalReasons,
      failure: reasons.failureReasons,
      absence: reasons.absenceReasons,
      file: Object.keys(reasons.FILE_REFUSALS),
      end: ['token_expired'],
      problem: reasons.problemCodes,
      operation: reasons.operations,
    })
  })

  it('name the reason of each refusal', () => {
    const tables = tablesUnder('Requests and answers')
    const [head = [], ...rows] = tables.find(([first]) => first?.[0] === 'status and code') ?? []
    const calls = head.slice(1).flatMap(wordsIn)
    const named = calls.map((call, at) => {
      const given = rows.map((row) => [wordsIn(row[0])[0], wordsIn(row[at + 1])[0]])
      return [call, Object.fromEntries(given.filter(([, reason]) => reason !== undefined))]
    })
    expect(Object.fromEntries(named)).toEqual(REFUSALS)
  })

  it('name each refusal of a file', () => {
    const [table] = tablesUnder('Offline files')
    const named = rowsOf(table).flatMap(([refusals]) => wordsIn(refusals))
    expect(new Set(named)).toEqual(new Set(Object.keys(reasons.FILE_REFUSALS)))
  })

  it('name the fields of the store, in their order, and those that may be absent', () => {
    const tables = tablesUnder('The store').slice(0, 3)
    const fields = tables.map((table) => rowsOf(table).flatMap(([field]) => wordsIn(field)))
    expect(fields).toEqual(
      [record.recordFields, record.revocationFields, record.timeFields].map((known) => Object.keys(known)),
    )
    const optional = tables.map((table) =>
      rowsOf(table)
        .filter(([, , whenAbsent]) => whenAbsent !== '')
        .flatMap(([field]) => wordsIn(field))
        .toSorted(),
    )
    expect(optional).toEqual(
      [record.recordDefaults, {}, record.timeDefaults].map((known) => Object.keys(known).toSorted()),
    )
  })

  it('name the files of the client', () => {
    const [table] = tablesUnder('Parts')
    const named = new Set(rowsOf(table).flatMap((row) => row.flatMap(wordsIn)))
    const files = readdirSync(new URL('../src/product/', import.meta.url))
    const parts = files.filter((file) => !file.endsWith('.test.ts') && file !== 'shape.ts')
    expect(parts.filter((file) => !named.has(file))).toEqual([])
    expect([...named].filter((word) => word.endsWith('.ts') && !files.includes(word))).toEqual([])
  })
})
