// PostgreSQL's text holds everything but this.
const nul = '\u0000'

/** What is wrong with a text that must have 1 to 255 characters, or undefined where nothing is. */
export function problemOf(text: string): string | undefined {
  if (text === '') return 'must not be empty'
  if (text.length > 255) return 'must have at most 255 characters'
  if (text.includes(nul)) return 'must not contain a null character'
  return undefined
}
