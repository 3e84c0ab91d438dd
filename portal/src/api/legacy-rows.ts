import { CsvReader, type CsvRecord } from '@licensing/csv/csv-reader'

const columns = ['legacy_key', 'external_ref', 'plan_code'] as const

/** A row of a file as it stands there, or what is wrong with its shape. */
export interface LegacyRow {
  readonly line: number
  readonly legacyKey: string
  readonly externalRef: string
  readonly planCode: string
  readonly flaw?: string
}

/**
 * The rows of a CSV file, read piece by piece. The columns may stand in any order; further ones are not read.
 *
 * @throws Error with a sentence for people, where the file is none of these
 */
export async function* readLegacyRows(file: Blob): AsyncGenerator<LegacyRow, void, void> {
  let places: Places | undefined
  for await (const record of recordsOf(file)) {
    if (places) yield rowOf(record, places)
    else places = placesIn(record)
  }
  if (!places)
    throw new Error(`The file is empty. Its first line must name the columns ${columns.join(', ')}.`)
}

async function* recordsOf(file: Blob): AsyncGenerator<CsvRecord, void, void> {
  const csv = new CsvReader()
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const pieces = file.stream().getReader()
  try {
    for (;;) {
      const { done, value } = await pieces.read()
      yield* csv.push(decoder.decode(value, { stream: !done }))
      if (done) break
    }
  } catch (error) {
    throw new Error(readable(error), { cause: error })
  } finally {
    await pieces.cancel().catch(() => undefined)
  }
  yield* csv.end()
}

function readable(error: unknown): string {
  if (error instanceof TypeError) {
    return 'The file is not UTF-8. In a spreadsheet, save it as “CSV UTF-8”, then choose it again.'
  }
  return 'The file cannot be read: it was changed or moved. Choose it again.'
}

interface Places {
  width: number
  of: Readonly<Record<(typeof columns)[number], number>>
}

function placesIn({ fields }: CsvRecord): Places {
  const names = fields.map((name) => name.trim().toLowerCase())
  for (const column of columns) {
    const first = names.indexOf(column)
    if (first >= 0 && names.lastIndexOf(column) === first) continue
    const what = first < 0 ? `There is no column ${column}` : `The column ${column} appears twice`
    throw new Error(`${what}. The first line of the file must name the columns ${columns.join(', ')}.`)
  }
  const of = Object.fromEntries(columns.map((column) => [column, names.indexOf(column)])) as Places['of']
  return { width: names.length, of }
}

function rowOf({ line, fields, flaw }: CsvRecord, { width, of }: Places): LegacyRow {
  const value = (column: (typeof columns)[number]) => fields[of[column]] ?? ''
  const wrong =
    flaw ??
    (fields.length === width
      ? fields.some((text) => text.includes('\0'))
        ? 'has a character that cannot be stored (U+0000)'
        : undefined
      : `has ${fields.length} values where the first line has ${width}`)
  return {
    line,
    legacyKey: value('legacy_key'),
    externalRef: value('external_ref'),
    planCode: value('plan_code'),
    ...(wrong !== undefined && { flaw: wrong }),
  }
}
