import { patientApi } from './client.ts'
import type { Licence, LicenceFilters } from './licences.ts'
import { given } from './paged-list.ts'

/** The heading of each column, and its value for a licence. */
type Columns = Readonly<
  Record<
    Exclude<keyof Licence, 'application_id' | 'restrictions' | 'updated_at'> | 'plan',
    (licence: Licence) => string | null
  >
>

/** The licences that match the filters as CSV (RFC 4180), newest first. */
export async function licencesAsCsv(
  { appId, filters, planName }: { appId: string; filters: LicenceFilters; planName: (id: string) => string },
  report: (rows: number) => void,
  signal: AbortSignal,
): Promise<Blob> {
  const columns: Columns = {
    id: ({ id }) => id,
    external_ref: ({ external_ref: reference }) => reference,
    status: ({ status }) => status,
    status_reason: ({ status_reason: reason }) => reason,
    plan: ({ plan_id: planId }) => planName(planId),
    plan_id: ({ plan_id: planId }) => planId,
    trial: ({ trial }) => String(trial),
    key: ({ key }) => key,
    expires_on: ({ expires_on: at }) => at,
    updates_until: ({ updates_until: at }) => at,
    created_at: ({ created_at: at }) => at,
    metadata: ({ metadata }) => (Object.keys(metadata).length === 0 ? null : JSON.stringify(metadata)),
  }
  const lines = [line(Object.keys(columns))]
  const query = { ...given(filters), limit: 200 }
  const path = { app_id: appId }
  let rows = 0
  for await (const licence of patientApi.rows('/v1/apps/{app_id}/licences', { path, query, signal })) {
    signal.throwIfAborted()
    lines.push(line(Object.values(columns).map((valueOf) => valueOf(licence) ?? '')))
    if (++rows % 200 === 0) report(rows)
  }
  report(rows)
  // Without the byte order mark, spreadsheet programs do not read the file as UTF-8.
  return new Blob(['\uFEFF', ...lines], { type: 'text/csv;charset=utf-8' })
}

function line(values: readonly string[]): string {
  return `${values.map(cell).join(',')}\r\n`
}

/** Escapes a value that begins like a formula, because a spreadsheet would run it and customers choose some of the values. */
function cell(value: string): string {
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
