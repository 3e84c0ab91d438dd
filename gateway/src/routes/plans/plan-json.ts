import { PlanSchema } from '@licensing/proto/catalog'
import type { ArchivePlanResponse } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { optional, storableText, text } from '../../fields/text.ts'
import { metadata, metadataChange, metadataInAnswer } from '../../fields/metadata.ts'
import { count } from '../../fields/money.ts'
import { timestampText } from '../../fields/time.ts'
import { within } from '../../route.ts'
import type { Services } from '../../services.ts'

export const planStatus = z.enum(closedSets.planStatus)

const planFields = {
  id: id('pln'),
  name: z.string(),
  code: z.string(),
  status: planStatus,
  active_licences: z.int().describe('Number of active licences on the plan.'),
  entitlements: z
    .array(z.strictObject({ entitlement_def_id: id('ent'), value: z.string() }))
    .describe('The values that the plan sets.'),
  created_at: timestampText,
  updated_at: timestampText,
  metadata: metadataInAnswer,
  trial_days: z.int().nullable().describe('Duration of a trial in days; null: the plan has no trials.'),
}

export const planSchema = z.strictObject(planFields).meta({ id: 'Plan' })

export const planJson = renderer(PlanSchema, planSchema)

export const archivedPlanSchema = z
  .strictObject({
    ...planFields,
    suspended_licences: z.int().describe('Number of licences that were suspended.'),
  })
  .meta({ id: 'ArchivedPlan' })

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
const trialDays = count.max(maxTrialDays, `must be at most ${maxTrialDays}`)

export const createPlanBody = z.strictObject({
  name,
  code,
  entitlements: optional(overrides),
  metadata: optional(metadata),
  trial_days: optional(trialDays).describe('Duration of a trial in days. Default: the plan has no trials.'),
})

export const updatePlanBody = z.strictObject({
  name: optional(name),
  code: optional(code),
  entitlements: optional(overrides).describe(
    'The complete list of values that the plan sets. All other entitlements go back to their default. Omit it to keep the current values.',
  ),
  metadata: metadataChange.optional(),
  trial_days: trialDays
    .nullable()
    .optional()
    .describe('Duration of new trials in days. null: the plan has no trials.'),
})

export function archivedPlanJson(response: ArchivePlanResponse): z.output<typeof archivedPlanSchema> {
  return { ...planJson(response.plan!), suspended_licences: Number(response.suspendedLicences) }
}

interface PlanCall {
  services: Services
  accountId: string
  params: { readonly app_id: string; readonly plan_id: string }
}

/** The account, application and plan that a call is about. */
export function planScope(call: PlanCall) {
  return { ...within(call), planId: call.params.plan_id }
}

export function findPlan(call: PlanCall) {
  return call.services.catalog.getPlan(planScope(call))
}
