// Array parameters in PostgreSQL's text format. The driver would search every element for characters to escape, which takes
// most of its time for a large batch.

type Plain = string | number | bigint | null

/** For ids, names, numbers, times and base64, which are not empty and have no characters to escape. */
export function plainArray(values: Plain[]): string {
  return `{${values.map((value) => value ?? 'null').join(',')}}`
}

/** For JSON and other texts without control characters. In such texts PostgreSQL's arrays and JSON have the same escapes. */
export function jsonArray(texts: string[]): string {
  return `{${texts.map((text) => JSON.stringify(text)).join(',')}}`
}

/** For bytes, as base64 for `decode`. */
export function base64Array(values: Uint8Array[]): string {
  return plainArray(
    values.map(({ buffer, byteOffset, byteLength }) =>
      Buffer.from(buffer, byteOffset, byteLength).toString('base64'),
    ),
  )
}
