import type { Application } from '@licensing/proto/catalog'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { text } from '../../fields/text.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'

export const appSchema = z
  .strictObject({ id: id('app'), name: z.string(), account_id: id('acct'), created_at: timestampText })
  .meta({ id: 'Application' })

export const createAppBody = z.strictObject({ name: text(1, 200).meta({ examples: ['Acme Studio'] }) })

export function appJson(application: Application): z.output<typeof appSchema> {
  return {
    id: application.id,
    name: application.name,
    account_id: application.accountId,
    created_at: isoText(application.createdAt),
  }
}
