/** What an offline licence file holds. */
export interface OfflineFile {
  readonly token: string
  /** Key sets, each vouched for by a root key, that verify the token. */
  readonly signed: readonly string[]
}

const BEGIN = '-----BEGIN LICENCE-----'
const END = '-----END LICENCE-----'

/** Reads a file; null where it is none. Line ends, blank lines and spaces around lines do not count. */
export function readOfflineFile(text: unknown): OfflineFile | null {
  if (typeof text !== 'string') return null
  const lines = text
    .split(/\r\n|\r|\n/)
    .map((line) => line.replace(/^\uFEFF/, '').trim())
    .filter((line) => line !== '')
  const [begin, token, ...rest] = lines
  if (begin !== BEGIN || token === undefined || rest.pop() !== END || rest.length === 0) return null
  return [token, ...rest].every(isJws) ? { token, signed: rest } : null
}

function isJws(text: string): boolean {
  return /^[\w-]+\.[\w-]+\.[\w-]+$/.test(text)
}
