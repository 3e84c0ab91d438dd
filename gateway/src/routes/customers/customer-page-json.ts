import type { MessageInitShape } from '@bufbuild/protobuf'
import type { CustomerPageChangeSchema } from '@licensing/proto/catalog'
import { z } from 'zod'
import { supportAddress } from '../../fields/text.ts'

/** The longest licence file, in days. */
export const maxOfflineDays = 366

const wholeNumber = (max: number) =>
  z.int('must be a whole number').min(0, 'must not be negative').max(max, `must be at most ${max}`)

const color = z
  .string()
  .regex(/^#[0-9A-Fa-f]{6}$/, 'must be # and six hexadecimal digits')
  .meta({ examples: ['#0b6e4f'] })

const meanings = {
  support_url: 'Where customers get help: `https:` or `mailto:`; null: no link.',
  accent_color: 'The colour of buttons and links; null: the default.',
  frees_per_day: 'How many machines a customer can remove from a licence on a UTC day. Default: 3.',
  offline_days: 'The longest licence file that a customer can make, in days; 0, the default: none.',
  key_sign_in:
    'Whether customers can sign in with the licence key, without a link of yours. Default: false. Open sessions go on when it is turned off.',
}

export const customerPageFields = {
  support_url: z.string().nullable().describe(meanings.support_url),
  accent_color: z.string().nullable().describe(meanings.accent_color),
}

export const customerPageSchema = z
  .strictObject({
    ...customerPageFields,
    frees_per_day: z.int().describe(meanings.frees_per_day),
    offline_days: z.int().describe(meanings.offline_days),
    key_sign_in: z.boolean().describe(meanings.key_sign_in),
  })
  .meta({ id: 'CustomerPage' })

/** A change: null sets the default, absent fields stay. */
export const customerPageBody = z.strictObject({
  support_url: supportAddress.nullable().optional().describe(meanings.support_url),
  accent_color: color.nullable().optional().describe(meanings.accent_color),
  frees_per_day: wholeNumber(100).nullable().optional().describe(meanings.frees_per_day),
  offline_days: wholeNumber(maxOfflineDays).nullable().optional().describe(meanings.offline_days),
  key_sign_in: z.boolean().nullable().optional().describe(meanings.key_sign_in),
})

export function customerPageChange(
  body: z.output<typeof customerPageBody>,
): MessageInitShape<typeof CustomerPageChangeSchema> {
  return {
    supportUrl: body.support_url ?? undefined,
    accentColor: body.accent_color ?? undefined,
    freesPerDay: body.frees_per_day ?? undefined,
    offlineDays: body.offline_days ?? undefined,
    keySignIn: body.key_sign_in ?? undefined,
    reset: Object.entries(body).flatMap(([field, value]) => (value === null ? [field] : [])),
  }
}
