import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { ImportLicencesResponse } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'

export const importSchema = z
  .strictObject({
    items: z
      .array(
        z.strictObject({
          legacy_key: z.string(),
          result: z.enum(closedSets.importResult),
          licence_id: id('lic').nullable(),
          error: z.strictObject({ code: z.string(), detail: z.string() }).nullable(),
        }),
      )
      .describe('In the order sent.'),
    summary: z.strictObject({ created: z.int(), existing: z.int(), failed: z.int() }),
  })
  .meta({ id: 'ImportResult' })

export function importJson(response: ImportLicencesResponse): z.output<typeof importSchema> {
  return {
    items: response.items.map((item) => ({
      legacy_key: item.legacyKey,
      result: readMember('importResult', item.result),
      licence_id: item.licenceId ?? null,
      error: item.error ? { code: item.error.code, detail: item.error.detail } : null,
    })),
    summary: { created: response.created, existing: response.existing, failed: response.failed },
  }
}
