import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/changes/repeatable'
import {
  ApplicationSchema,
  ArchivePlanResponseSchema,
  CatalogService,
  CreateApiKeyResponseSchema,
  EntitlementDefinitionSchema,
  MemberSchema,
  PlanSchema,
} from '@licensing/proto/catalog'
import { listAuditLog } from './audit-log/audit-log.ts'
import { confirmAlertEmail, findAlertEmailConfirmation } from './accounts/alert-email.ts'
import { getAccount, updateAccount } from './accounts/accounts.ts'
import {
  authenticateKey,
  authenticateKeys,
  createApiKey,
  getApiKey,
  listApiKeys,
  revokeApiKey,
} from './api-keys/api-keys.ts'
import {
  createApplication,
  findApplicationOwner,
  findCustomerPage,
  getApplication,
  listApplications,
  updateApplication,
} from './applications/applications.ts'
import type { CatalogDependencies } from './dependencies.ts'
import {
  createDefinition,
  deleteDefinition,
  getDefinition,
  listDefinitions,
  updateDefinition,
} from './entitlements/definitions.ts'
import {
  authenticateMember,
  createMember,
  getMember,
  listMembers,
  nameActors,
  removeMember,
  updateMember,
} from './members/members.ts'
import { findMembersOfPerson, signIn, useSignInState } from './members/sign-in.ts'
import { getCopyEpoch, getPlanCopy, listPlanCopies } from './plan-copies/plan-copies.ts'
import { archivePlan, restorePlan } from './plans/plan-status.ts'
import { createPlan } from './plans/create-plan.ts'
import { getPlan, listPlans } from './plans/read-plans.ts'
import { updatePlan } from './plans/update-plan.ts'

/** Every RPC of the service. @param checkMoved refuses an account that has moved */
export function catalogService(
  deps: CatalogDependencies,
  checkMoved: (accountId: string) => void = () => {},
) {
  const unmoved = async <Found extends { accountId?: string }>(finding: Promise<Found>): Promise<Found> => {
    const principal = await finding
    checkMoved(principal.accountId!)
    return principal
  }
  const repeatable = createRepeatable(deps)
  return implement(CatalogService, {
    authenticateKey: (request) => unmoved(authenticateKey(deps, request)),
    authenticateKeys: (request) => authenticateKeys(deps, request),
    authenticateMember: (request) => unmoved(authenticateMember(deps, request)),
    getAccount: (request) => getAccount(deps, request),
    updateAccount: (request) => updateAccount(deps, request),
    findAlertEmailConfirmation: (request) => findAlertEmailConfirmation(deps, request),
    confirmAlertEmail: (request) => confirmAlertEmail(deps, request),
    createApplication: repeatable(ApplicationSchema, (request) => createApplication(deps, request)),
    getApplication: (request) => getApplication(deps, request),
    findApplicationOwner: (request) => findApplicationOwner(deps, request),
    findCustomerPage: (request) => findCustomerPage(deps, request),
    updateApplication: (request) => updateApplication(deps, request),
    listApplications: (request) => listApplications(deps, request),
    getApiKey: (request) => getApiKey(deps, request),
    createApiKey: repeatable(CreateApiKeyResponseSchema, (request) => createApiKey(deps, request)),
    listApiKeys: (request) => listApiKeys(deps, request),
    revokeApiKey: (request) => revokeApiKey(deps, request),
    createMember: repeatable(MemberSchema, (request) => createMember(deps, request)),
    getMember: (request) => getMember(deps, request),
    listMembers: (request) => listMembers(deps, request),
    updateMember: (request) => updateMember(deps, request),
    removeMember: (request) => removeMember(deps, request),
    useSignInState: (request) => useSignInState(deps, request),
    findMembersOfPerson: (request) => findMembersOfPerson(deps, request),
    signIn: (request) => signIn(deps, request),
    nameActors: (request) => nameActors(deps, request),

    createEntitlementDefinition: repeatable(EntitlementDefinitionSchema, (request, unfinishedAnswer) =>
      createDefinition(deps, request, unfinishedAnswer),
    ),
    getEntitlementDefinition: (request) => getDefinition(deps, request),
    listEntitlementDefinitions: (request) => listDefinitions(deps, request),
    updateEntitlementDefinition: (request) => updateDefinition(deps, request),
    deleteEntitlementDefinition: (request) => deleteDefinition(deps, request),

    createPlan: repeatable(PlanSchema, (request) => createPlan(deps, request)),
    getPlan: (request) => getPlan(deps, request),
    listPlans: (request) => listPlans(deps, request),
    updatePlan: (request) => updatePlan(deps, request),
    archivePlan: repeatable(ArchivePlanResponseSchema, (request, unfinishedAnswer) =>
      archivePlan(deps, request, unfinishedAnswer),
    ),
    restorePlan: repeatable(PlanSchema, (request, unfinishedAnswer) =>
      restorePlan(deps, request, unfinishedAnswer),
    ),

    listAuditLog: (request) => listAuditLog(deps, request),

    getPlanCopy: (request) => getPlanCopy(deps, request),
    getCopyEpoch: (request) => getCopyEpoch(deps, request),
    listPlanCopies: (request) => listPlanCopies(deps, request),
  })
}
