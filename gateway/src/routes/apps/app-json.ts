import type { Application } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { text } from '../../fields/text.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'

export const appSchema = z
  .strictObject({ id: id('app'), name: z.string(), account_id: id('acct'), created_at: timestampText })
  .meta({ id: 'Application' })

export const createAppBody = z.strictObject({
  name: text(textLimits.name).meta({ examples: ['Acme Studio'] }),
})

export function appJson(application: Application): z.output<typeof appSchema> {
  return {
    id: application.id,
    name: application.name,
    account_id: application.accountId,
    created_at: isoText(application.createdAt),
  }
}
