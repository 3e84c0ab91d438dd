import { readCsv } from '@licensing/csv/csv-reader'
import { Refusal } from '../command/failures.ts'

const columns = ['legacy_key', 'external_ref', 'plan_code'] as const

export type LegacyRow = Readonly<Record<(typeof columns)[number], string>> & { readonly line: number }

export interface BadRow {
  readonly line: number
  readonly reason: string
}

/**
 * The rows of a file and those that have not the shape of one. The columns may stand in any order; further ones are
 * not read.
 *
 * @throws Refusal where the first line does not name the columns
 */
export function readLegacyRows(file: string, text: string): { rows: LegacyRow[]; bad: BadRow[] } {
  const [header, ...records] = readCsv(text)
  const names = header?.fields.map((name) => name.trim()) ?? []
  const places = columns.map((column) => {
    const place = names.indexOf(column)
    if (place >= 0 && names.lastIndexOf(column) === place) return place
    const what = place < 0 ? `there is no column ${column}` : `the column ${column} appears twice`
    throw new Refusal('invalid_file', `${file}:1: ${what}; the first line must name ${columns.join(', ')}`)
  })
  const rows: LegacyRow[] = []
  const bad: BadRow[] = []
  for (const { line, fields, flaw } of records) {
    if (flaw !== undefined) bad.push({ line, reason: flaw })
    else if (fields.length !== names.length) {
      bad.push({ line, reason: `has ${fields.length} values where the first line has ${names.length}` })
    } else if (fields.some((value) => value.includes('\0'))) {
      bad.push({ line, reason: 'has a character that cannot be stored (U+0000)' })
    } else {
      const [legacyKey, externalRef, planCode] = places.map((place) => fields[place]!)
      rows.push({ line, legacy_key: legacyKey!, external_ref: externalRef!, plan_code: planCode! })
    }
  }
  return { rows, bad }
}
