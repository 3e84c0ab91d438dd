// Array parameters as PostgreSQL writes them. The driver would look through every element for what has to be escaped,
// which costs more than all else that it does with a batch.

type Plain = string | number | bigint | null

/** Of ids, names, numbers, times and base64, in which nothing has to be escaped, and no text is empty. */
export function plainArray(values: Plain[]): string {
  return `{${values.map((value) => value ?? 'null').join(',')}}`
}

/** Of JSON texts, or of others without control characters: JSON's escapes and those of an array are the same then. */
export function jsonArray(texts: string[]): string {
  return `{${texts.map((text) => JSON.stringify(text)).join(',')}}`
}

/** Of bytes, as base64 for `decode`. */
export function base64Array(values: Uint8Array[]): string {
  return plainArray(
    values.map(({ buffer, byteOffset, byteLength }) =>
      Buffer.from(buffer, byteOffset, byteLength).toString('base64'),
    ),
  )
}
