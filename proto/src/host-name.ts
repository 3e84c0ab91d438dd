import { problemOfText, textLimits } from './text.ts'

const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const hostName = new RegExp(`^(?:${label}\\.)*${label}$`)

/** Whether a text in lower case is a host name: labels of letters, digits and hyphens, and no address. */
export function isHostName(text: string): boolean {
  if (text.length > textLimits.hostName.max || !hostName.test(text)) return false
  // If the last label is a number, the name is parsed as an IPv4 address (WHATWG URL, host parsing).
  return !/^(?:\d+|0x[0-9a-f]*)$/.test(text.slice(text.lastIndexOf('.') + 1))
}

/** Whether a text in lower case can be an entry of `restrictions.domains`: a host name, or `*.` and a host name. */
export function isDomain(text: string): boolean {
  return text.length <= textLimits.hostName.max && isHostName(text.startsWith('*.') ? text.slice(2) : text)
}

/** The problem of the name of a machine, or undefined if it is valid. It can be any text, such as `BÜRO-PC` or `(none)`. */
export function problemOfMachineName(text: string): string | undefined {
  const problem = problemOfText(text, textLimits.hostName)
  return problem ?? (/\p{Control}/u.test(text) ? 'must not contain control characters' : undefined)
}

/**
 * The name of a machine as it is stored and compared: in lower case, and a host name without the dot at its end, which makes no
 * other name (RFC 1034, section 3.1).
 *
 * @example readMachineName('MBP.local.') // 'mbp.local'
 */
export function readMachineName(text: string): string {
  const name = text.toLowerCase()
  return name.endsWith('.') && isHostName(name.slice(0, -1)) ? name.slice(0, -1) : name
}
