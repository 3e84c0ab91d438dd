import type { Application } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { text } from '../../fields/text.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'

const rootKey = z
  .string()
  .describe(
    'Root key: compile it into the product as `rootKey`. The product trusts only signing keys that are signed by it. The newest one if there are several.',
  )
  .meta({
    pattern: '^lrk_[A-Za-z0-9_-]{43}$',
    examples: ['lrk_AoDtsaUswXreFakMWbowaDTpbAMp2-AQwFqCXczKfU8'],
  })

export const appSchema = z
  .strictObject({
    id: id('app'),
    name: z.string(),
    account_id: id('acct'),
    root_key: rootKey,
    created_at: timestampText,
  })
  .meta({ id: 'Application' })

export const createAppBody = z.strictObject({
  name: text(textLimits.name).meta({ examples: ['Acme Studio'] }),
})

export function appJson(application: Application, rootKey: string): z.output<typeof appSchema> {
  return {
    id: application.id,
    name: application.name,
    account_id: application.accountId,
    root_key: rootKey,
    created_at: isoText(application.createdAt),
  }
}
