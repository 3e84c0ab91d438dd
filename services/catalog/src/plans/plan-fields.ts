import type { FieldOf } from '@licensing/grpc/fields'
import { givenFields } from '@licensing/grpc/given-fields'
import { PlanFieldsSchema } from '@licensing/proto/catalog'
import { changedMetadata, problemOfChange } from '@licensing/proto/metadata'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { PlanRow } from './plan.ts'

const maxTrialDays = 366

/** The columns of the fields that a vendor gives a plan. */
export type FieldColumns = Pick<PlanRow, FieldOf<typeof PlanFieldsSchema>>

/** The fields that a vendor gives a plan when it is created, and can change, besides its entitlements. */
export const planFields = givenFields<FieldColumns, typeof PlanFieldsSchema>(PlanFieldsSchema, {
  name: { isRequired: true, problem: (text) => problemOfText(text, textLimits.name) },
  code: { isRequired: true, problem: problemOfCode },
  metadata: {
    problem: (change, { metadata = {} }) => problemOfChange(metadata, change),
    columns: (change, { metadata = {} }) => ({ metadata: change ? changedMetadata(metadata, change) : {} }),
  },
  trial_days: { problem: problemOfTrialDays },
})

function problemOfCode(code: string): string | undefined {
  if (/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(code)) return undefined
  return 'must have 1 to 64 characters: letters, digits, _ . and -, the first a letter or digit'
}

function problemOfTrialDays(days: number): string | undefined {
  if (days >= 1 && days <= maxTrialDays) return undefined
  return `must be a whole number from 1 to ${maxTrialDays}`
}
