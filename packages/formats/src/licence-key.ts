// NUL is not among them: it cannot be stored, and each reader of a text refuses it.
const unseen = String.raw`\u0001-\u001F\u007F-\u009F\u2800\p{White_Space}\p{Default_Ignorable_Code_Point}`

// Besides the punctuation: modifier minus, hyphen bullet, superscript, subscript, minus sign and heavy minus.
const dash = String.raw`\p{Dash_Punctuation}\u02D7\u2043\u207B\u208B\u2212\u2796`

const separators = new RegExp(`[${unseen}${dash}]+`, 'gu')
const isUnseen = new RegExp(`^[${unseen}]$`, 'u')

/** A licence key without blanks, line breaks, invisible characters, hyphens and dashes of every kind. */
export function withoutSeparators(text: string): string {
  return text.replaceAll(separators, '')
}

/**
 * Converts a licence key as somebody typed, copied or printed it to the form in which it was issued. Case and separators do
 * not count, and the letters that Crockford's base 32 does not have are the digits that they resemble.
 *
 * @returns undefined if the text cannot be a licence key
 * @example readLicenceKey('oa1bc defgh\u2013jkmnp qrstv wxyz9\r\n') // '0A1BC-DEFGH-JKMNP-QRSTV-WXYZ9'
 */
export function readLicenceKey(text: string): string | undefined {
  const characters = withoutSeparators(text)
  if (!/^[0-9A-Za-z]{25}$/.test(characters)) return undefined
  const key = characters.toUpperCase().replaceAll('O', '0').replaceAll(/[IL]/g, '1')
  return key.includes('U') ? undefined : key.match(/.{5}/g)!.join('-')
}

/** A text without blanks, line breaks and invisible characters at both ends: legacy keys are compared and stored like that. */
export function trimUnseen(text: string): string {
  const characters = Array.from(text)
  const isSeen = (character: string) => !isUnseen.test(character)
  return characters.slice(characters.findIndex(isSeen), characters.findLastIndex(isSeen) + 1).join('')
}
