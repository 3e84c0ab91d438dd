import { trimUnseen } from '@licensing/formats/licence-key'
import type { LicenceFields } from '@licensing/proto/licensing'
import { CsvReader, type CsvRecord } from './csv-reader.ts'
import { decodeText, UnreadableFile } from './decode-text.ts'

const required = ['legacy_key', 'external_ref', 'plan_code'] as const
const metadataPrefix = 'metadata.'

/** The columns of each field that a vendor gives a licence. */
const columnsOf: Record<Exclude<keyof LicenceFields, '$typeName' | '$unknown'>, readonly string[]> = {
  externalRef: ['external_ref'],
  expiresOn: ['expires_on'],
  updatesUntil: ['updates_until'],
  restrictions: ['max_activations'],
  // Each column with the prefix.
  metadata: [],
}
const knownColumns = new Set<string>([...required, ...Object.values(columnsOf).flat()])
const maxMetadata = 50

/** The values of a row by the names of their columns, without those that are empty. */
type Values = ReadonlyMap<string, string>

/** A row of a file with licence keys of another system. */
export interface KeyRow {
  /** The line where it begins, from 1. */
  readonly line: number
  readonly legacyKey: string
  readonly planCode: string
  /** The row as an item of an import call, apart from its plan. */
  readonly item: ImportItem
  /** Why it cannot be imported. */
  readonly flaw?: string
  /** Spaces or invisible characters around its values were removed. */
  readonly isTrimmed: boolean
}

export interface ImportItem {
  readonly legacy_key: string
  readonly external_ref: string
  readonly expires_on?: string
  readonly updates_until?: string
  readonly restrictions?: { readonly max_activations: number }
  readonly metadata?: Readonly<Record<string, string>>
}

/**
 * Reads the rows of a file of keys piece by piece, for the portal and the command line. The columns may have any order.
 * Unknown columns and empty rows are ignored.
 *
 * @param ignored receives the names of the unknown columns, before the first row
 * @throws UnreadableFile if the file is not text in UTF-8 or UTF-16, or does not name the columns
 */
export async function* readKeyFile(
  pieces: AsyncIterable<Uint8Array>,
  ignored: (columns: readonly string[]) => void = () => undefined,
): AsyncGenerator<KeyRow, void, void> {
  let columns: Columns | undefined
  const known = new Map<string, Known>()
  for await (const record of recordsOf(pieces)) {
    if (record.flaw === undefined && record.fields.every((value) => trimUnseen(value) === '')) continue
    if (!columns) {
      columns = columnsIn(record)
      ignored(columns.ignored)
      continue
    }
    const { row, values } = rowOf(record, columns)
    const flaw = row.flaw ?? contradictionOf(values, known.get(row.legacyKey), columns)
    if (flaw === undefined && row.legacyKey !== '' && !known.has(row.legacyKey)) {
      known.set(row.legacyKey, { line: row.line, values })
    }
    yield flaw === undefined ? row : { ...row, flaw }
  }
  if (!columns)
    throw new UnreadableFile(`the file is empty: its first line must name the columns ${required.join(', ')}`)
}

async function* recordsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<CsvRecord, void, void> {
  const csv = new CsvReader()
  for await (const text of decodeText(pieces)) yield* csv.push(text)
  yield* csv.end()
}

interface Columns {
  /** Number of columns, without nameless columns at the end. */
  readonly width: number
  /** The place of each known column. */
  readonly places: ReadonlyMap<string, number>
  readonly ignored: readonly string[]
}

function columnsIn({ line, fields, flaw }: CsvRecord): Columns {
  const must = `the first line must name ${required.join(', ')}`
  if (flaw !== undefined) throw new UnreadableFile(`${flaw}; ${must}`, line)
  const names = fields.map(columnName)
  const places = new Map<string, number>()
  for (const [place, name] of names.entries()) {
    if (!isKnown(name)) continue
    if (places.has(name)) throw new UnreadableFile(`the column ${name} appears twice; ${must}`, line)
    places.set(name, place)
  }
  const missing = required.find((name) => !places.has(name))
  if (missing !== undefined) throw new UnreadableFile(`there is no column ${missing}; ${must}`, line)
  if (names.filter((name) => name.startsWith(metadataPrefix)).length > maxMetadata) {
    throw new UnreadableFile(`there are more than ${maxMetadata} columns ${metadataPrefix}NAME`, line)
  }
  return {
    width: names.findLastIndex((name) => name !== '') + 1,
    places,
    ignored: fields.map(trimUnseen).filter((name, place) => name !== '' && !isKnown(names[place]!)),
  }
}

/** The names of columns ignore case, but the names of metadata entries do not. */
function columnName(field: string): string {
  const name = trimUnseen(field)
  const start = name.slice(0, metadataPrefix.length).toLowerCase()
  return start === metadataPrefix ? start + name.slice(start.length) : name.toLowerCase()
}

function isKnown(name: string): boolean {
  return knownColumns.has(name) || name.startsWith(metadataPrefix)
}

function rowOf(
  { line, fields, flaw }: CsvRecord,
  { width, places }: Columns,
): { row: KeyRow; values: Values } {
  const raw = [...places].map(([name, place]) => [name, fields[place] ?? ''] as const)
  const values = new Map(
    raw.map(([name, value]) => [name, trimUnseen(value)] as const).filter(([, value]) => value !== ''),
  )
  const row = {
    line,
    legacyKey: values.get('legacy_key') ?? '',
    planCode: values.get('plan_code') ?? '',
    item: itemOf(values),
    isTrimmed: raw.some(([, value]) => value !== trimUnseen(value)),
  }
  const wrong = flaw ?? flawOf(fields, width, values)
  return { row: wrong === undefined ? row : { ...row, flaw: wrong }, values }
}

function itemOf(values: Values): ImportItem {
  const entries = [...values].filter(([name]) => name.startsWith(metadataPrefix))
  const metadata = entries.map(([name, value]) => [name.slice(metadataPrefix.length), bounded(value, 500)])
  const expiresOn = values.get('expires_on')
  const updatesUntil = values.get('updates_until')
  const maxActivations = values.get('max_activations')
  return {
    legacy_key: bounded(values.get('legacy_key') ?? '', 255),
    external_ref: bounded(values.get('external_ref') ?? '', 255),
    ...(expiresOn !== undefined && { expires_on: bounded(endOfDay(expiresOn), 255) }),
    ...(updatesUntil !== undefined && { updates_until: bounded(endOfDay(updatesUntil), 255) }),
    ...(maxActivations !== undefined && { restrictions: { max_activations: Number(maxActivations) } }),
    ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) as Record<string, string> }),
  }
}

/** Cuts a long text to one character more than the service accepts: it is still refused, and the call stays small. */
function bounded(text: string, max: number): string {
  return text.length <= max
    ? text
    : Array.from(text.slice(0, 2 * max + 2))
        .slice(0, max + 1)
        .join('')
}

/** A date without a time is the end of that day, UTC. Any other text stays as it is. */
export function endOfDay(text: string): string {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T23:59:59.999Z` : text
}

function flawOf(fields: readonly string[], width: number, values: Values): string | undefined {
  if (fields.length < width || fields.slice(width).some((value) => trimUnseen(value) !== '')) {
    return `has ${fields.length} values where the first line has ${width}`
  }
  if (fields.some((value) => value.includes('\0'))) return 'has a character that cannot be stored (U+0000)'
  const count = values.get('max_activations')
  if (count !== undefined && !/^-?\d{1,15}$/.test(count)) return `max_activations ${count} is no whole number`
  const shortened = ['legacy_key', 'external_ref'].find((name) => isShortened(values.get(name) ?? ''))
  if (shortened === undefined) return undefined
  return `the ${shortened} ${values.get(shortened)} is a number that a spreadsheet has shortened: its last digits are lost. Format the column as text, and export the original data again`
}

/** Excel and LibreOffice write a long number as `1.23457E+15`. A real key has no sign after an E. */
function isShortened(value: string): boolean {
  return /^-?\d(?:[.,]\d+)?E[+-]\d{2,}$/i.test(value)
}

interface Known {
  readonly line: number
  readonly values: Values
}

/** The flaw of a row that has the key of an earlier row, but other values. A person must choose one of them. */
function contradictionOf(values: Values, first: Known | undefined, { places }: Columns): string | undefined {
  const column = [...places.keys()].find((name) => first && first.values.get(name) !== values.get(name))
  if (!first || column === undefined) return undefined
  const other = first.values.get(column) ?? 'empty'
  return `line ${first.line} has the same legacy_key with another ${column} (${other})`
}

const MAX_NAMED = 10

/** A text for the person who imports the file: the lines in which spaces were removed. */
export function trimmedText(lines: readonly number[]): string {
  return lines.length === 1
    ? `blanks around values were removed in line ${named(lines)}`
    : `blanks around values were removed in ${lines.length} rows: lines ${named(lines)}`
}

/** A text for the person who imports the file: the columns that are not imported. */
export function ignoredText(columns: readonly string[]): string {
  return columns.length === 1
    ? `the column ${named(columns)} is ignored`
    : `${columns.length} columns are ignored: ${named(columns)}`
}

function named(all: readonly (string | number)[]): string {
  const more = all.length > MAX_NAMED ? ` and ${all.length - MAX_NAMED} more` : ''
  return all.slice(0, MAX_NAMED).join(', ') + more
}
