import { givenFields } from '@licensing/grpc/given-fields'
import type { FieldOf } from '@licensing/grpc/fields'
import { LicenceFieldsSchema } from '@licensing/proto/licensing'
import { byName, changedMetadata, problemOfChange } from '@licensing/proto/metadata'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { LicenceRow } from './licence-row.ts'
import { problemOfRestrictions, restrictionColumns, shownRestrictions } from './restrictions.ts'
import type { RestrictionColumns } from './restrictions.ts'

type Field = FieldOf<typeof LicenceFieldsSchema>

/** The columns of the fields that a vendor gives a licence. */
export type FieldColumns = Pick<LicenceRow, Exclude<Field, 'restrictions'> | keyof RestrictionColumns>

/** The fields that a vendor gives a licence when it is issued or imported, and can change. The history has their changes. */
export const licenceFields = givenFields<FieldColumns, typeof LicenceFieldsSchema>(LicenceFieldsSchema, {
  external_ref: { isRequired: true, problem: (text) => problemOfText(text, textLimits.reference) },
  restrictions: { problem: problemOfRestrictions, columns: restrictionColumns, shown: shownRestrictions },
  expires_on: {},
  metadata: {
    problem: (change, { metadata = {} }) => problemOfChange(metadata, change),
    columns: (change, { metadata = {} }) => ({ metadata: change ? changedMetadata(metadata, change) : {} }),
    // PostgreSQL has an order of its own.
    shown: ({ metadata }) => byName(metadata),
  },
  updates_until: {},
})
