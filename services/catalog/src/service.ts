import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/changes/repeatable'
import {
  ApplicationSchema,
  ArchivePlanResponseSchema,
  CatalogService,
  CreateApiKeyResponseSchema,
  EntitlementDefinitionSchema,
  PlanSchema,
} from '@licensing/proto/catalog'
import { confirmAlertEmail, findAlertEmailConfirmation } from './accounts/confirm-alert-email.ts'
import { getAccount } from './accounts/get-account.ts'
import { updateAccount } from './accounts/update-account.ts'
import { authenticateKey } from './api-keys/authenticate-key.ts'
import { authenticateKeys } from './api-keys/authenticate-keys.ts'
import { createApiKey } from './api-keys/create-api-key.ts'
import { getApiKey } from './api-keys/get-api-key.ts'
import { listApiKeys } from './api-keys/list-api-keys.ts'
import { revokeApiKey } from './api-keys/revoke-api-key.ts'
import { createApplication } from './applications/create-application.ts'
import { findApplicationOwner } from './applications/find-application-owner.ts'
import { getApplication } from './applications/get-application.ts'
import { listApplications } from './applications/list-applications.ts'
import type { CatalogDependencies } from './dependencies.ts'
import { createDefinition } from './entitlements/create-definition.ts'
import { deleteDefinition } from './entitlements/delete-definition.ts'
import { getDefinition } from './entitlements/get-definition.ts'
import { listDefinitions } from './entitlements/list-definitions.ts'
import { updateDefinition } from './entitlements/update-definition.ts'
import { getPlanCopy } from './plan-copies/get-plan-copy.ts'
import { listPlanCopies } from './plan-copies/list-plan-copies.ts'
import { archivePlan } from './plans/archive-plan.ts'
import { createPlan } from './plans/create-plan.ts'
import { getPlan } from './plans/get-plan.ts'
import { listPlans } from './plans/list-plans.ts'
import { restorePlan } from './plans/restore-plan.ts'
import { updatePlan } from './plans/update-plan.ts'

/** Every RPC of the service. */
export function catalogService(deps: CatalogDependencies) {
  const repeatable = createRepeatable(deps)
  return implement(CatalogService, {
    authenticateKey: (request) => authenticateKey(deps, request),
    authenticateKeys: (request) => authenticateKeys(deps, request),
    getAccount: (request) => getAccount(deps, request),
    updateAccount: (request) => updateAccount(deps, request),
    findAlertEmailConfirmation: (request) => findAlertEmailConfirmation(deps, request),
    confirmAlertEmail: (request) => confirmAlertEmail(deps, request),
    createApplication: repeatable(ApplicationSchema, (request) => createApplication(deps, request)),
    getApplication: (request) => getApplication(deps, request),
    findApplicationOwner: (request) => findApplicationOwner(deps, request),
    listApplications: (request) => listApplications(deps, request),
    getApiKey: (request) => getApiKey(deps, request),
    createApiKey: repeatable(CreateApiKeyResponseSchema, (request) => createApiKey(deps, request)),
    listApiKeys: (request) => listApiKeys(deps, request),
    revokeApiKey: (request) => revokeApiKey(deps, request),

    createEntitlementDefinition: repeatable(EntitlementDefinitionSchema, (request, begun) =>
      createDefinition(deps, request, begun),
    ),
    getEntitlementDefinition: (request) => getDefinition(deps, request),
    listEntitlementDefinitions: (request) => listDefinitions(deps, request),
    updateEntitlementDefinition: (request) => updateDefinition(deps, request),
    deleteEntitlementDefinition: (request) => deleteDefinition(deps, request),

    createPlan: repeatable(PlanSchema, (request) => createPlan(deps, request)),
    getPlan: (request) => getPlan(deps, request),
    listPlans: (request) => listPlans(deps, request),
    updatePlan: (request) => updatePlan(deps, request),
    archivePlan: repeatable(ArchivePlanResponseSchema, (request, begun) => archivePlan(deps, request, begun)),
    restorePlan: repeatable(PlanSchema, (request, begun) => restorePlan(deps, request, begun)),

    getPlanCopy: (request) => getPlanCopy(deps, request),
    listPlanCopies: (request) => listPlanCopies(deps, request),
  })
}
