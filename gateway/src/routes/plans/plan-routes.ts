import { PlanFieldsSchema } from '@licensing/proto/catalog'
import { z } from 'zod'
import { fieldsFrom } from '../../fields/messages.ts'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import {
  findPlan,
  planScope,
  archivedPlanJson,
  archivedPlanSchema,
  createPlanBody,
  planJson,
  planSchema,
  planStatus,
  updatePlanBody,
} from './plan-json.ts'

const tag = 'Plans'
const all = '/v1/apps/{app_id}/plans'
const one = '/v1/apps/{app_id}/plans/{plan_id}'

// Archiving a plan suspends all of its active licences before the answer, which takes about 10 s for 100,000. The timeout is
// longer than catalog's own for licensing, so that catalog can still answer, and shorter than a server's limit for any call.
const archiveMs = 55_000

export const planRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: all,
    operationId: 'createPlan',
    tag,
    summary: 'Create a plan',
    scopes: ['admin'],
    body: createPlanBody,
    status: 201,
    answer: planSchema,
    errors: ['already_exists', 'quota_exceeded'],
    handle: async (call) => {
      const { entitlements, ...body } = call.body
      const { fields } = fieldsFrom(PlanFieldsSchema, body)
      const plan = await call.services.catalog.createPlan({ ...within(call), fields, entitlements })
      return { body: planJson(plan) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: all,
    operationId: 'listPlans',
    tag,
    summary: 'List plans',
    scopes: ['admin', 'read'],
    query: z.strictObject({ limit, cursor: idCursor('pln'), status: planStatus.optional() }),
    answer: pageOf(planSchema),
    handle: async (call) => {
      const { plans, hasMore } = await call.services.catalog.listPlans({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        status: call.query.status,
      })
      return { body: page(plans.map(planJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: one,
    operationId: 'getPlan',
    tag,
    summary: 'Get a plan',
    scopes: ['admin', 'read'],
    answer: planSchema,
    handle: async (call) => ({ body: planJson(await findPlan(call)) }),
  }),
  vendorRoute({
    method: 'PATCH',
    path: one,
    operationId: 'updatePlan',
    tag,
    summary: 'Update a plan',
    description:
      'Send any subset of the fields. A retired plan can be updated too. Existing licences keep their snapshot.',
    scopes: ['admin'],
    body: updatePlanBody,
    answer: planSchema,
    errors: ['already_exists'],
    lookUp: findPlan,
    handle: async (call) => {
      const { entitlements, ...body } = call.body
      const plan = await call.services.catalog.updatePlan({
        ...planScope(call),
        ...fieldsFrom(PlanFieldsSchema, body),
        entitlements: entitlements && { overrides: entitlements },
      })
      return { body: planJson(plan) }
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${one}/archive`,
    operationId: 'archivePlan',
    tag,
    summary: 'Archive a plan and suspend its active licences',
    scopes: ['admin'],
    answer: archivedPlanSchema,
    errors: ['conflict'],
    lookUp: findPlan,
    handle: async (call) => {
      const request = { ...planScope(call), actor: call.actorId }
      return {
        body: archivedPlanJson(await call.services.catalog.archivePlan(request, { timeoutMs: archiveMs })),
      }
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${one}/restore`,
    operationId: 'restorePlan',
    tag,
    summary: 'Restore a retired plan',
    description: 'Licences that the archive suspended stay suspended. Reactivate each of them.',
    scopes: ['admin'],
    answer: planSchema,
    errors: ['conflict'],
    lookUp: findPlan,
    handle: async (call) => ({ body: planJson(await call.services.catalog.restorePlan(planScope(call))) }),
  }),
]
