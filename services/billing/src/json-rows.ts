/** Rows as one parameter, for `jsonb_to_recordset(${…}::text::jsonb)`: a statement for a set, however large. */
export function jsonRows(rows: readonly object[]): string {
  return JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))
}
