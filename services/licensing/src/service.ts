import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/idempotency/repeatable'
import type { LicenceVerb } from '@licensing/proto/closed-sets'
import { ImportLicencesResponseSchema, LicenceSchema, LicensingService } from '@licensing/proto/licensing'
import type { LifecycleRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from './dependencies.ts'
import { freeActivation } from './activations/free-activation.ts'
import { listActivations } from './activations/list-activations.ts'
import { searchLicences } from './licences/search-licences.ts'
import { getApplicationDays } from './application-days/get-application-days.ts'
import { changeLicence, requireVisible } from './licences/change-licence.ts'
import { licenceReader } from './licences/get-licence.ts'
import { importLicences } from './licences/import-licences.ts'
import { licenceIssuer } from './licences/issue-licence.ts'
import { listLicenceHistory } from './licences/list-licence-history.ts'
import { listLicences } from './licences/list-licences.ts'
import { updateLicence } from './licences/update-licence.ts'
import { archivePlan } from './plans/archive-plan.ts'
import { countActiveLicences } from './plans/count-active-licences.ts'
import { syncPlans } from './plans/sync-plans.ts'

export function licensingService(deps: LicensingDependencies) {
  const repeatable = createRepeatable(deps)
  const verb = (name: LicenceVerb) => {
    const change = repeatable(LicenceSchema, (request: LifecycleRequest) =>
      changeLicence(deps, name, request),
    )
    return async (request: LifecycleRequest) => {
      await requireVisible(deps, request)
      return change(request)
    }
  }
  return implement(LicensingService, {
    issueLicence: licenceIssuer(deps),
    importLicences: repeatable(ImportLicencesResponseSchema, (request, begun) =>
      importLicences(deps, request, begun),
    ),
    getLicence: licenceReader(deps),
    listLicences: (request) => listLicences(deps, request),
    listLicenceHistory: (request) => listLicenceHistory(deps, request),

    listActivations: (request) => listActivations(deps, request),
    freeActivation: (request) => freeActivation(deps, request),
    searchLicences: (request) => searchLicences(deps, request),
    getApplicationDays: (request) => getApplicationDays(deps, request),
    checkCatalog: async () => ({ isDown: await deps.isCatalogDown() }),

    updateLicence: (request) => updateLicence(deps, request),
    suspendLicence: verb('suspend'),
    reactivateLicence: verb('reactivate'),
    revokeLicence: verb('revoke'),
    retireLicence: verb('retire'),

    syncPlans: (request) => syncPlans(deps, request),
    archivePlan: (request) => archivePlan(deps, request),
    countActiveLicences: (request) => countActiveLicences(deps, request),
  })
}
