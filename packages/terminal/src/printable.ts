// C0, DEL and C1 steer a terminal. The others reorder or break a line: Unicode's bidirectional controls and line separators.
const unprintable = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu

/**
 * A line for a terminal. Characters that a terminal acts on are written as escapes, such as `\u001b`: the text may come from a customer or a
 * vendor. In JSON such characters stand in strings only, so a line of JSON keeps its meaning.
 */
export function printable(line: string): string {
  return line.replaceAll(unprintable, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** The same for a text of several lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}
