import { characters, textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { lengths } from './text.ts'

const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const hostName = new RegExp(`^(?:${label}\\.)*${label}$`)
// Names that machines in the field really have hold underscores too.
const machineName = /^[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*$/
const longest = textLimits.hostName.most

/** An entry of `restrictions.domains`: a host name, or `*.` and one for any depth of sub-domain; lower-cased. */
export const domain = z.string().transform((text, context) => {
  const lower = text.toLowerCase()
  if (isDomain(lower)) return lower
  context.addIssue({
    code: 'custom',
    message: 'must be a host name such as app.example.com or *.example.com; addresses are not host names',
  })
  return z.NEVER
})

/** The host that a product runs on; lower-cased. */
export const host = z
  .string()
  .meta({ ...lengths(textLimits.hostName), pattern: '^[A-Za-z0-9_.-]+$', examples: ['build-7.example.com'] })
  .transform((text, context) => {
    const lower = text.toLowerCase()
    if (characters(lower) <= longest && machineName.test(lower)) return lower
    context.addIssue({ code: 'custom', message: `must be a host name of 1 to ${longest} characters` })
    return z.NEVER
  })

function isDomain(lower: string): boolean {
  const name = lower.startsWith('*.') ? lower.slice(2) : lower
  if (characters(lower) > longest || !hostName.test(name)) return false
  // A last label of digits alone (or 0x…) makes an IPv4 address of the whole (WHATWG URL, host parsing).
  return !/^(?:\d+|0x[0-9a-f]*)$/.test(name.slice(name.lastIndexOf('.') + 1))
}
