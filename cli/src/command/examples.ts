/** The examples at the end of a command's help. */
export const examples = (...lines: readonly string[]) =>
  ['', 'Examples:', ...lines.map((line) => `  licensing ${line}`)].join('\n')
