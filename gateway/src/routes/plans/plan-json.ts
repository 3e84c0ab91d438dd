import { PlanFieldsSchema, PlanSchema } from '@licensing/proto/catalog'
import type { ArchivePlanResponse } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { fieldList } from '../../fields/field-list.ts'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { optional, storableText, text } from '../../fields/text.ts'
import { metadata, metadataChange, metadataInAnswer } from '../../fields/metadata.ts'
import { count } from '../../fields/money.ts'
import { timestampText } from '../../fields/time.ts'
import { within } from '../../route.ts'
import type { CallIn } from '../../route.ts'

export const planStatus = z.enum(closedSets.planStatus)

const name = text(textLimits.name).meta({ examples: ['Pro'] })
const codePattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/

/** Whether text has the form of a plan's code. */
export function isPlanCode(text: string): boolean {
  return codePattern.test(text)
}

const code = z
  .string()
  .regex(codePattern, `must match ${codePattern.source}`)
  .meta({ examples: ['pro-yearly'] })
const overrides = z
  .array(z.strictObject({ key: storableText, value: storableText }))
  .superRefine((list, context) => {
    const seen = new Set<string>()
    for (const [index, { key }] of list.entries()) {
      if (seen.has(key))
        context.addIssue({ code: 'custom', path: [index, 'key'], message: 'must not appear twice' })
      seen.add(key)
    }
  })
  .meta({ examples: [[{ key: 'export_pdf', value: 'true' }]] })

const maxTrialDays = 366

const fields = fieldList(PlanFieldsSchema, {
  name: { given: name, change: optional(name), shown: z.string(), about: 'Its name.' },
  code: {
    given: code,
    change: optional(code),
    shown: z.string(),
    about: 'Its code, unique in the application.',
  },
  metadata: {
    given: metadata.transform((set) => ({ set })),
    change: metadataChange,
    shown: metadataInAnswer,
    about: 'Your own entries: text by name.',
    none: 'no entries',
  },
  trial_days: {
    given: count.max(maxTrialDays, `must be at most ${maxTrialDays}`),
    shown: z.int().nullable(),
    about: 'Duration of a trial in days.',
    none: 'the plan has no trials',
  },
})

const shownPlan = {
  id: id('pln'),
  ...fields.shown,
  status: planStatus,
  active_licences: z.int().describe('Number of active licences on the plan.'),
  entitlements: z
    .array(z.strictObject({ entitlement_def_id: id('ent'), value: z.string() }))
    .describe('The values that the plan sets.'),
  created_at: timestampText,
  updated_at: timestampText,
}

export const planSchema = z.strictObject(shownPlan).meta({ id: 'Plan' })

export const planJson = renderer(PlanSchema, planSchema)

export const archivedPlanSchema = z
  .strictObject({
    ...shownPlan,
    suspended_licences: z.int().describe('Number of licences that were suspended.'),
  })
  .meta({ id: 'ArchivedPlan' })

export const createPlanBody = z.strictObject({ ...fields.made(), entitlements: optional(overrides) })

export const updatePlanBody = z.strictObject({
  ...fields.changed,
  entitlements: optional(overrides).describe(
    'The complete list of values that the plan sets. All other entitlements go back to their default. Omit it to keep the current values.',
  ),
})

export function archivedPlanJson(response: ArchivePlanResponse): z.output<typeof archivedPlanSchema> {
  return { ...planJson(response.plan!), suspended_licences: Number(response.suspendedLicences) }
}

type PlanCall = CallIn<'plan_id'>

/** The account, application and plan that a call is about. */
export function planScope(call: PlanCall) {
  return { ...within(call), planId: call.params.plan_id }
}

export function findPlan(call: PlanCall) {
  return call.services.catalog.getPlan(planScope(call))
}
