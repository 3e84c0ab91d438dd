import { inCalls, itemsOf, refusalOf } from '@licensing/csv/import-calls'
import { readKeyFile, type KeyRow } from '@licensing/csv/key-file'
import { allOf, patientApi } from './client.ts'
import { queryClient } from './query-client.ts'

/** While the file is counted, the user can stop after so many rows. */
const ROWS_AT_ONCE = 500

export interface BadRow {
  readonly line: number
  readonly legacyKey: string
  readonly reason: string
}

/** The results of the rows so far. */
export interface ImportResult {
  /** Rows in the file. It is known before the first row is sent. */
  readonly total: number
  readonly created: number
  readonly existing: number
  readonly failed: number
  /** In the order of the file. */
  readonly bad: readonly BadRow[]
  /** The lines in which blanks around values were removed. */
  readonly trimmed: readonly number[]
  /** The names of columns that are not imported. */
  readonly ignored: readonly string[]
}

interface ImportRequest {
  appId: string
  file: Blob
  /** The service checks the rows and writes nothing. */
  dryRun: boolean
}

/**
 * Sends the rows of a file in calls of 500, one after the other. If it is stopped, the file can be sent again: rows that
 * were imported before are then `existing`.
 */
export async function importFile(
  { appId, file, dryRun }: ImportRequest,
  report: (result: ImportResult) => void,
  signal: AbortSignal,
): Promise<void> {
  const plans = await plansByCode(appId, signal)
  let total = 0
  const trimmed: number[] = []
  let ignored: readonly string[] = []
  const rowsToCount = readKeyFile(piecesOf(file), (columns) => (ignored = columns))
  for await (const { line, isTrimmed } of rowsToCount) {
    if (isTrimmed) trimmed.push(line)
    if (++total % ROWS_AT_ONCE === 0) signal.throwIfAborted()
  }
  const bad: BadRow[] = []
  let [created, existing, failed] = [0, 0, 0]
  const reportAll = () => report({ total, created, existing, failed, bad: [...bad], trimmed, ignored })
  reportAll()
  const sent = new Set<string>()
  try {
    for await (const rows of inCalls(readKeyFile(piecesOf(file)))) {
      const refused = new Map(rows.flatMap((row) => (row.flaw === undefined ? [] : [[row, row.flaw]])))
      const good = rows.filter(({ flaw }) => flaw === undefined)
      for (const { row, result, reason } of await sendRows({ appId, dryRun, plans }, good, signal)) {
        // A dry run writes nothing, so the service does not know the rows of earlier calls of the same dry run.
        if (result === 'failed') refused.set(row, reason ?? '')
        else if (result === 'existing' || (dryRun && sent.has(row.legacyKey))) existing += 1
        else created += 1
        if (dryRun && result !== 'failed') sent.add(row.legacyKey)
      }
      for (const row of rows) {
        const reason = refused.get(row)
        if (reason !== undefined) bad.push({ line: row.line, legacyKey: row.legacyKey, reason })
      }
      failed = bad.length
      reportAll()
    }
  } finally {
    if (!dryRun) void queryClient.invalidateQueries()
  }
}

async function* piecesOf(file: Blob): AsyncGenerator<Uint8Array, void, void> {
  // Not every browser supports `for await` on a stream.
  const reader = file.stream().getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } catch (error) {
    throw new Error('the file cannot be read: it was changed or moved. Choose it again', { cause: error })
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

interface Sending {
  appId: string
  dryRun: boolean
  plans: ReadonlyMap<string, string>
}

async function sendRows({ appId, dryRun, plans }: Sending, rows: readonly KeyRow[], signal: AbortSignal) {
  if (rows.length === 0) return []
  const items = itemsOf(rows, plans)
  const answer = await patientApi.post('/v1/apps/{app_id}/licences/import', {
    path: { app_id: appId },
    body: { items, ...(dryRun && { dry_run: true }) },
    signal,
  })
  return answer.items.map(({ result, error }, at) => {
    const row = rows[at]!
    return { row, result, reason: refusalOf(row, error, plans) }
  })
}

async function plansByCode(appId: string, signal: AbortSignal): Promise<Map<string, string>> {
  const query = { limit: 200 }
  const plans = await allOf(
    patientApi.rows('/v1/apps/{app_id}/plans', { path: { app_id: appId }, query, signal }),
  )
  return new Map(plans.map(({ id, code }) => [code, id]))
}
