/** Separators that people, mail programs and word processors put into a licence key. */
const separators = {
  blank: ' ',
  tab: '\t',
  'line feed': '\n',
  'carriage return and line feed': '\r\n',
  'next line': '\u0085',
  'no-break space': '\u00A0',
  'thin space': '\u2009',
  'narrow no-break space': '\u202F',
  'line separator': '\u2028',
  'ideographic space': '\u3000',
  hyphen: '\u2010',
  'non-breaking hyphen': '\u2011',
  'figure dash': '\u2012',
  'en dash': '\u2013',
  'em dash': '\u2014',
  'horizontal bar': '\u2015',
  'minus sign': '\u2212',
  'small hyphen': '\uFE63',
  'full-width hyphen': '\uFF0D',
  'soft hyphen': '\u00AD',
  'zero-width space': '\u200B',
  'zero-width joiner': '\u200D',
  'left-to-right mark': '\u200E',
  'right-to-left isolate': '\u2067',
  'word joiner': '\u2060',
  'byte order mark': '\uFEFF',
  'variation selector': '\uFE0F',
  'tag in a higher plane': '\u{E0020}',
  'control character': '\u001B',
}

/** A licence key in the forms in which it must be read, by name. */
export function writtenKeys(key: string): Record<string, string> {
  const groups = key.split('-')
  const bySeparator = Object.entries(separators).flatMap(([name, separator]) => [
    [`${name} instead of hyphens`, groups.join(separator)],
    [
      `${name} around it and between all characters`,
      `${separator}${Array.from(key).join(separator)}${separator}`,
    ],
  ])
  return {
    'as it was issued': key,
    'in lower case': key.toLowerCase(),
    'without hyphens': groups.join(''),
    'in a sentence of its own lines': `\r\n  ${groups.join('-\r\n  ')}\r\n`,
    'O for 0 and I for 1': key.replaceAll('0', 'O').replaceAll('1', 'I'),
    'o for 0 and l for 1': key.replaceAll('0', 'o').replaceAll('1', 'l').toLowerCase(),
    ...Object.fromEntries(bySeparator),
  }
}
