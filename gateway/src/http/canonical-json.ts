import { hash } from 'node:crypto'

/**
 * SHA-256 of a JSON value. The order of keys and white space do not matter, and a member that is null is the same as an
 * absent one.
 */
export function bodyHash(value: unknown): Buffer {
  return hash('sha256', canonicalJson(value), 'buffer')
}

export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value)
    .filter(([, member]) => member !== null)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(',')}}`
}
