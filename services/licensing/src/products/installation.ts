import { invalid } from '@licensing/grpc/errors'

/** What an installed product says of itself. */
export interface Installation {
  /** In lower case. */
  host: string
  productVersion: string
}

const longestHost = 253
// In UTF-16 units: twice the characters that the gateway lets through.
const longestText = 256
// PostgreSQL's text holds everything but this.
const nul = '\u0000'

/** @throws ServiceError `validation_failed` for what would not fit the tables */
export function checkInstallation(given: { host: string; productVersion: string }): Installation {
  checkText('/host', given.host, longestHost)
  checkText('/product_version', given.productVersion, longestText)
  return { host: given.host.toLowerCase(), productVersion: given.productVersion }
}

export function checkFingerprint(fingerprint: string): string {
  checkText('/fingerprint', fingerprint, longestText)
  return fingerprint
}

function checkText(pointer: string, text: string, longest: number): void {
  if (text === '') throw invalid(pointer, 'must not be empty')
  if (text.length > longest) throw invalid(pointer, 'is too long')
  if (text.includes(nul)) throw invalid(pointer, 'must not contain a null character')
}
