import { ServiceError } from '@licensing/grpc/errors'
import { z } from 'zod'
import { keylessRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import { grantFields, grantJson, installationFields } from '../activations/activation-routes.ts'
import { isPlanCode } from '../plans/plan-json.ts'

const trialSchema = z
  .strictObject({ ...grantFields, licence_key: z.string().describe('The key of the licence of the trial.') })
  .meta({ id: 'Trial' })

const startTrialBody = z.strictObject({
  // Any string is accepted: a text that is not a plan code gets 404 like an unknown code, not a validation error.
  plan_code: z
    .string()
    .meta({ examples: ['pro'] })
    .describe('The code of a plan that has `trial_days`.'),
  ...installationFields,
})

export const trialRoutes: Route[] = [
  keylessRoute({
    method: 'POST',
    path: '/v1/apps/{app_id}/trials',
    operationId: 'startTrial',
    tag: 'Installed products',
    summary: 'Start a trial',
    description:
      'Called by the installed product, without a key. Each fingerprint has one trial in an application, permanently. After it the answer is `licence_refused` with the reason `trial_used`. At most 1,000 new trials of an application start on a UTC day, and 20 from one address (the /64 of an IPv6 address); then the answer is `quota_exceeded`, with `limit`. A trial that is running is always answered.',
    audience: 'product',
    body: startTrialBody,
    status: 201,
    alsoAnswers: { 200: 'The trial of this fingerprint is running: the same licence and activation.' },
    answer: trialSchema,
    errors: ['licence_refused', 'plan_archived', 'limit_reached', 'quota_exceeded'],
    handle: async ({ services, params, body, caller, trialsPerAddress }) => {
      const { plan_code: planCode, product_version: productVersion, ...installation } = body
      if (!isPlanCode(planCode)) throw new ServiceError('not_found', 'there is no plan with this code')
      const trial = { applicationId: params.app_id, planCode, productVersion, ...installation }
      const { grant, licenceKey, created } = await services.products.startTrial({
        ...trial,
        address: caller,
        maxForAddress: trialsPerAddress,
      })
      return { status: created ? 201 : 200, body: { ...grantJson(grant!), licence_key: licenceKey } }
    },
  }),
]
