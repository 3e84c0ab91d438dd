import type { ImportItem, KeyRow } from './key-file.ts'

/** The service refuses a call with more rows, or of more than 2 MiB. */
const MAX_ROWS = 500
const MAX_BYTES = 1_500_000

/** Divides rows into the calls that import them. */
export async function* inCalls(
  rows: AsyncIterable<KeyRow> | Iterable<KeyRow>,
): AsyncGenerator<KeyRow[], void, void> {
  const encoder = new TextEncoder()
  let call: KeyRow[] = []
  let bytes = 0
  for await (const row of rows) {
    const size = encoder.encode(JSON.stringify(row.item)).length + 100
    if (call.length === MAX_ROWS || (call.length > 0 && bytes + size > MAX_BYTES)) {
      yield call
      call = []
      bytes = 0
    }
    call.push(row)
    bytes += size
  }
  if (call.length > 0) yield call
}

/**
 * The items of a call. A row with an unknown plan code is sent too: the service refuses it, unless the licence was imported
 * before.
 *
 * @param plans the id of each plan by its code
 */
export function itemsOf(
  rows: readonly KeyRow[],
  plans: ReadonlyMap<string, string>,
): (ImportItem & { plan_id: string })[] {
  return rows.map(({ item, planCode }) => ({ ...item, plan_id: plans.get(planCode) ?? 'unknown' }))
}

/** Why the service did not import a row; undefined if it did. */
export function refusalOf(
  { planCode }: KeyRow,
  error: { readonly code: string; readonly detail: string } | null | undefined,
  plans: ReadonlyMap<string, string>,
): string | undefined {
  if (error?.code === 'not_found' && !plans.has(planCode)) return `no plan has the code “${planCode}”`
  return error?.detail
}
