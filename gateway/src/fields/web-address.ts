import { characters, textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { lengths, text } from './text.ts'

const limit = textLimits.webAddress

/** An absolute http or https URL, such as a customer's browser is sent to. */
export const webAddress = text(limit)
  .refine((value) => {
    const url = URL.parse(value)
    return url !== null && (url.protocol === 'https:' || url.protocol === 'http:')
  }, 'must be an http or https URL')
  .meta({ format: 'uri', ...lengths(limit), examples: ['https://shop.example.com/thanks'] })

/** Where webhooks go. Whether its addresses are public is the notifier's to judge, which resolves them. */
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
  const tooLong = characters(value) > limit.most
  if (tooLong) return `must have at most ${limit.most} characters`
  const url = URL.parse(value)
  // URL drops white space and control characters around and inside the text: what is stored must be what was meant.
  if (!url || !/^[\x21-\x7e]+$/.test(value)) return 'must be an absolute https URL'
  if (url.protocol !== 'https:') return 'must be an https URL'
  if (url.username || url.password) return 'must not contain a user name or password'
  if (value.includes('#')) return 'must not have a fragment'
  return undefined
}
