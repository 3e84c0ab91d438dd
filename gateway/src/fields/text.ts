import { isDomain, problemOfMachineName } from '@licensing/proto/host-name'
import { isStorable, problemOfText, unstorable, characters, textLimits } from '@licensing/proto/text'
import type { TextLimit } from '@licensing/proto/text'
import { z } from 'zod'

/** Text within a limit, counted in characters, that PostgreSQL can store. */
export function text(limit: TextLimit) {
  return z
    .string()
    .superRefine((value, context) => {
      const problem = problemOfText(value, limit)
      if (problem) context.addIssue({ code: 'custom', message: problem })
    })
    .meta(lengths(limit))
}

/** A limit in the form of the OpenAPI document, for a schema that refines `text` or checks the limit itself. */
export function lengths({ min, max }: TextLimit) {
  return { minLength: min, maxLength: max }
}

/** Text of any length that PostgreSQL can store. The service checks its other rules. */
export const storableText = z.string().refine(isStorable, unstorable)

/** An entry of `restrictions.domains`: a host name, or `*.` and a host name for subdomains at any depth. Lower-cased. */
export const domain = z.string().transform((text, context) => {
  const lower = text.toLowerCase()
  if (isDomain(lower)) return lower
  context.addIssue({
    code: 'custom',
    message: 'must be a host name such as app.example.com or *.example.com; addresses are not host names',
  })
  return z.NEVER
})

/** The name of the machine that a product runs on. The service keeps it in lower case, which can be longer: `İ` becomes two characters. */
export const host = z
  .string()
  .meta({
    ...lengths(textLimits.hostName),
    pattern: '^[^\\u0000-\\u001F\\u007F-\\u009F]+$',
    examples: ['build-7.example.com'],
  })
  .superRefine((text, context) => {
    const problem = problemOfMachineName(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })

const limit = textLimits.webAddress

/** An absolute http or https URL to which a customer's browser is sent. */
export const webAddress = text(limit)
  .refine((value) => {
    const url = URL.parse(value)
    return url !== null && (url.protocol === 'https:' || url.protocol === 'http:')
  }, 'must be an http or https URL')
  .meta({ format: 'uri', ...lengths(limit), examples: ['https://shop.example.com/thanks'] })

/** An e-mail address. Only ASCII characters, so that case can be ignored without surprises. */
export const emailAddress = z
  .email({ pattern: z.regexes.html5Email, error: 'must be an e-mail address' })
  .refine(
    (address) => characters(address) <= textLimits.emailAddress.max,
    `must have at most ${textLimits.emailAddress.max} characters`,
  )
  .meta({ ...lengths(textLimits.emailAddress), examples: ['ann@example.com'] })

/** An https URL that a page shows as a link. */
export const httpsAddress = z
  .string()
  .superRefine((value, context) => {
    const problem = httpsProblem(value)
    if (problem) context.addIssue({ code: 'custom', message: problem })
  })
  .meta({
    format: 'uri',
    ...lengths(limit),
    pattern: '^[!-~]+$',
    examples: ['https://shop.example.com/account'],
  })

/** An https URL or an e-mail address as a link. */
export const supportAddress = z
  .string()
  .superRefine((value, context) => {
    const isMail = /^mailto:[!-~]+@[!-~]+$/.test(value) && characters(value) <= limit.max
    if (!isMail && httpsProblem(value)) {
      context.addIssue({ code: 'custom', message: 'must be an https URL, or mailto: and an e-mail address' })
    }
  })
  .meta({ format: 'uri', ...lengths(limit), pattern: '^[!-~]+$', examples: ['mailto:help@example.com'] })

/** The URL of a webhook endpoint. The notifier resolves it and checks that its addresses are public. */
export const webhookUrl = z
  .string()
  .superRefine((value, context) => {
    const problem = webhookUrlProblem(value)
    if (problem) context.addIssue({ code: 'custom', message: problem })
  })
  .meta({
    format: 'uri',
    ...lengths(limit),
    pattern: '^[!-~]+$',
    examples: ['https://hooks.example.com/licensing'],
  })

function webhookUrlProblem(value: string): string | undefined {
  return httpsProblem(value) ?? (value.includes('#') ? 'must not have a fragment' : undefined)
}

function httpsProblem(value: string): string | undefined {
  const tooLong = characters(value) > limit.max
  if (tooLong) return `must have at most ${limit.max} characters`
  const url = URL.parse(value)
  // URL drops white space and control characters, so the stored text could differ from the URL that was parsed.
  if (!url || !/^[\x21-\x7e]+$/.test(value)) return 'must be an absolute https URL'
  if (url.protocol !== 'https:') return 'must be an https URL'
  if (url.username || url.password) return 'must not contain a user name or password'
  return undefined
}

/** An optional field. Null is the same as absent. */
export function optional<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined)
}
