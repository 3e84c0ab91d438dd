// The control characters C0, DEL and C1 control a terminal. Unicode's bidirectional controls and line separators reorder or break a line.
const unprintable = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu

/**
 * Makes a line safe for a terminal: control characters are written as escapes, such as `\u001b`, since the text may come from a customer or a
 * vendor. In JSON such characters can be only in strings, so a line of JSON keeps its meaning.
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
