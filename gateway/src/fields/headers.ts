import { z } from 'zod'

const maxHeaders = 10
const maxName = 100
const maxValue = 1_000
/** An HTTP token (RFC 9110, "Tokens"). */
const token = /^[!#$%&'*+.^_\x60|~0-9A-Za-z-]{1,100}$/
/** Visible ASCII, with spaces only inside. */
const value = /^[!-~](?:[ -~]{0,998}[!-~])?$/

// Headers of the connection, and headers that the service sends itself.
const reserved =
  /^(?:host|user-agent|connection|transfer-encoding|te|trailer|upgrade|keep-alive|expect|(?:content|webhook|proxy)-.*)$/i

/** Headers in a request: values by name. An error never contains a value. */
export const headers = z
  .unknown()
  .transform((given, context) => {
    const entries = typeof given === 'object' && given !== null ? Object.entries(given) : []
    const refuse = (message: string, ...path: string[]) => context.addIssue({ code: 'custom', path, message })
    if (typeof given !== 'object' || given === null || Array.isArray(given)) refuse('must be an object')
    if (entries.length > maxHeaders) refuse(`must have at most ${maxHeaders} headers`)
    const seen = new Set<string>()
    for (const [name, text] of entries) {
      // The wrong name is not repeated, because it may be a whole header.
      if (!token.test(name)) refuse(`each name must be an HTTP token of at most ${maxName} characters`)
      else if (reserved.test(name))
        refuse('cannot be set: it belongs to the connection or to the service', name)
      else if (seen.has(name.toLowerCase())) refuse('is there twice, in other letter case', name)
      else if (typeof text !== 'string' || !value.test(text)) {
        refuse(`must be 1 to ${maxValue} characters of visible ASCII, with spaces only inside`, name)
      }
      seen.add(name.toLowerCase())
    }
    return Object.fromEntries(entries) as Record<string, string>
  })
  .meta({
    type: 'object',
    maxProperties: maxHeaders,
    propertyNames: { pattern: token.source },
    additionalProperties: { type: 'string', pattern: value.source },
    examples: [{ Authorization: 'Bearer 4f9c2e' }],
  })

/** Headers in an answer: their names. The values are not shown. Generators of clients have no type for null alone. */
export const headersInAnswer = z.record(z.string(), z.null().meta({ type: ['string', 'null'] }))
