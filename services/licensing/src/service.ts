import { implement } from '@licensing/grpc/server'
import { LicensingService } from '@licensing/proto/licensing'
import type { LicensingDeps } from './dependencies.ts'
import { changeLicence } from './licences/change-licence.ts'
import { licenceReader } from './licences/get-licence.ts'
import { importLicences } from './licences/import-licences.ts'
import { licenceIssuer } from './licences/issue-licence.ts'
import { listLicenceHistory } from './licences/list-licence-history.ts'
import { listLicences } from './licences/list-licences.ts'
import { drawConsequence } from './payments/draw-consequence.ts'
import { provisionLicence } from './payments/provision-licence.ts'
import { renewLicence } from './payments/renew-licence.ts'
import { suspendForPayment } from './payments/suspend-for-payment.ts'
import { archivePlan } from './plans/archive-plan.ts'
import { countActiveLicences } from './plans/count-active-licences.ts'
import { syncPlans } from './plans/sync-plans.ts'

export function licensingService(deps: LicensingDeps) {
  return implement(LicensingService, {
    issueLicence: licenceIssuer(deps),
    importLicences: (request) => importLicences(deps, request),
    getLicence: licenceReader(deps),
    listLicences: (request) => listLicences(deps, request),
    listLicenceHistory: (request) => listLicenceHistory(deps, request),

    suspendLicence: (request) => changeLicence(deps, 'suspend', request),
    reactivateLicence: (request) => changeLicence(deps, 'reactivate', request),
    revokeLicence: (request) => changeLicence(deps, 'revoke', request),
    retireLicence: (request) => changeLicence(deps, 'retire', request),

    syncPlans: (request) => syncPlans(deps, request),
    archivePlan: (request) => archivePlan(deps, request),
    countActiveLicences: (request) => countActiveLicences(deps, request),

    provisionLicence: (request) => provisionLicence(deps, request),
    renewLicence: (request) => renewLicence(deps, request),
    expireLicence: (request) => drawConsequence(deps, 'subscriptionCancelled', request),
    suspendForPayment: (request) => suspendForPayment(deps, request),
    resumeFromInquiry: (request) => drawConsequence(deps, 'inquiryClosed', request),
    revokeForRefund: (request) => drawConsequence(deps, 'refunded', request),
    downgradeForRefund: (request) => drawConsequence(deps, 'partlyRefunded', request),
  })
}
