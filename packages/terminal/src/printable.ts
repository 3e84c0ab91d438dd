// C0, DEL and C1 steer a terminal. The others reorder or break a line: Unicode's bidirectional controls and line separators.
const unprintable = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu

/**
 * A line of text for a terminal, whoever wrote it: characters that a terminal acts on are written as `\u001b`. In a line of JSON these stand
 * in strings only, so it stays the same JSON.
 */
export function printable(line: string): string {
  return line.replaceAll(unprintable, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** The same for a text of several lines that a program laid out. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}
