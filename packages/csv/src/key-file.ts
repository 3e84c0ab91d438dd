import { trimUnseen } from '@licensing/keys/licence-key'
import { CsvReader, type CsvRecord } from './csv-reader.ts'
import { decodeText, UnreadableFile } from './decode-text.ts'

const columns = ['legacy_key', 'external_ref', 'plan_code'] as const

type Column = (typeof columns)[number]

/** A row of a file with licence keys of another system. */
export interface KeyRow {
  /** The line where it begins, from 1. */
  readonly line: number
  readonly legacyKey: string
  readonly externalRef: string
  readonly planCode: string
  /** Why it cannot be imported. */
  readonly flaw?: string
  /** Spaces around its values were removed. */
  readonly isTrimmed: boolean
}

/**
 * Reads the rows of a file of keys piece by piece, for the portal and the command line. The columns may have any order.
 * Other columns and empty rows are ignored.
 *
 * @throws UnreadableFile if the file is not text in UTF-8 or UTF-16, or does not name the columns
 */
export async function* readKeyFile(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<KeyRow, void, void> {
  let places: Places | undefined
  const known = new Map<string, KeyRow>()
  for await (const record of recordsOf(pieces)) {
    if (record.flaw === undefined && record.fields.every((value) => trimUnseen(value) === '')) continue
    if (!places) {
      places = placesIn(record)
      continue
    }
    const row = rowOf(record, places)
    const flaw = row.flaw ?? contradictionOf(row, known)
    if (flaw === undefined && row.legacyKey !== '' && !known.has(row.legacyKey)) known.set(row.legacyKey, row)
    yield flaw === undefined ? row : { ...row, flaw }
  }
  if (!places)
    throw new UnreadableFile(`the file is empty: its first line must name the columns ${columns.join(', ')}`)
}

async function* recordsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<CsvRecord, void, void> {
  const csv = new CsvReader()
  for await (const text of decodeText(pieces)) yield* csv.push(text)
  yield* csv.end()
}

interface Places {
  /** Number of columns, without nameless columns at the end. */
  width: number
  of: Readonly<Record<Column, number>>
}

function placesIn({ line, fields, flaw }: CsvRecord): Places {
  const must = `the first line must name ${columns.join(', ')}`
  if (flaw !== undefined) throw new UnreadableFile(`${flaw}; ${must}`, line)
  const names = fields.map((name) => trimUnseen(name).toLowerCase())
  for (const column of columns) {
    const first = names.indexOf(column)
    if (first >= 0 && names.lastIndexOf(column) === first) continue
    const what = first < 0 ? `there is no column ${column}` : `the column ${column} appears twice`
    throw new UnreadableFile(`${what}; ${must}`, line)
  }
  const of = Object.fromEntries(columns.map((column) => [column, names.indexOf(column)])) as Places['of']
  return { width: names.findLastIndex((name) => name !== '') + 1, of }
}

function rowOf({ line, fields, flaw }: CsvRecord, { width, of }: Places): KeyRow {
  const raw = columns.map((column) => fields[of[column]] ?? '')
  const [legacyKey = '', externalRef = '', planCode = ''] = raw.map(trimUnseen)
  const row = {
    line,
    legacyKey,
    externalRef,
    planCode,
    isTrimmed: raw.some((value) => value !== trimUnseen(value)),
  }
  const wrong = flaw ?? flawOf(fields, width, row)
  return wrong === undefined ? row : { ...row, flaw: wrong }
}

function flawOf(
  fields: readonly string[],
  width: number,
  { legacyKey, externalRef }: KeyRow,
): string | undefined {
  if (fields.length < width || fields.slice(width).some((value) => trimUnseen(value) !== '')) {
    return `has ${fields.length} values where the first line has ${width}`
  }
  if (fields.some((value) => value.includes('\0'))) return 'has a character that cannot be stored (U+0000)'
  const [column, value] = isShortened(legacyKey) ? ['legacy_key', legacyKey] : ['external_ref', externalRef]
  if (!isShortened(value)) return undefined
  return `the ${column} ${value} is a number that a spreadsheet has shortened: its last digits are lost. Format the column as text, and export the original data again`
}

/** Excel and LibreOffice write a long number as `1.23457E+15`. A real key has no sign after an E. */
function isShortened(value: string): boolean {
  return /^-?\d(?:[.,]\d+)?E[+-]\d{2,}$/i.test(value)
}

/** The flaw of a row that has the key of an earlier row, but another customer or plan. A person must choose one of them. */
function contradictionOf(row: KeyRow, known: ReadonlyMap<string, KeyRow>): string | undefined {
  const first = known.get(row.legacyKey)
  if (first === undefined) return undefined
  const contradicts = (column: string, value: string) =>
    `line ${first.line} has the same legacy_key with another ${column} (${value})`
  if (first.externalRef !== row.externalRef) return contradicts('external_ref', first.externalRef)
  return first.planCode === row.planCode ? undefined : contradicts('plan_code', first.planCode)
}

const MAX_LINES_NAMED = 10

/** A text for the person who imports the file: the lines in which spaces were removed. */
export function trimmedText(lines: readonly number[]): string {
  const named = lines.slice(0, MAX_LINES_NAMED).join(', ')
  const more = lines.length > MAX_LINES_NAMED ? ` and ${lines.length - MAX_LINES_NAMED} more` : ''
  return lines.length === 1
    ? `blanks around values were removed in line ${named}`
    : `blanks around values were removed in ${lines.length} rows: lines ${named}${more}`
}
