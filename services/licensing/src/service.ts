import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { implement } from '@licensing/grpc/server'
import type { Change } from '@licensing/changes/change'
import { createRepeatable } from '@licensing/changes/repeatable'
import type { LicenceVerb } from '@licensing/proto/closed-sets'
import { CustomerService, CustomerSessionSchema } from '@licensing/proto/customers'
import { ImportLicencesResponseSchema, LicenceSchema, LicensingService } from '@licensing/proto/licensing'
import type { LifecycleRequest } from '@licensing/proto/licensing'
import { ActivateOfflineResponseSchema, ProductService } from '@licensing/proto/products'
import { RootKeyService } from '@licensing/proto/root-keys'
import { SecretsService } from '@licensing/proto/secrets'
import { createActivateOffline } from './activations/activate-offline.ts'
import { activate } from './activations/activate.ts'
import { authenticate } from './activations/authenticate.ts'
import { createDeactivate, createRelease, freeActivation } from './activations/free-activation.ts'
import { createGiveSlot } from './activations/give-slot.ts'
import { listActivations } from './activations/list-activations.ts'
import { migrateLegacyKey } from './activations/migrate-legacy-key.ts'
import { recordCallHome, refreshActivation } from './activations/refresh-activation.ts'
import { getApplicationDays } from './application-days/application-days.ts'
import { freeCustomerActivation, getCustomerLicence } from './customers/customer-licence.ts'
import {
  createCustomerSession,
  endCustomerSessions,
  findCustomerSession,
  signInWithKey,
} from './customers/customer-sessions.ts'
import type { LicensingDependencies, ProductDependencies } from './dependencies.ts'
import { createVerbHandler, requireVisible } from './licences/change-licence.ts'
import { createGetLicence } from './licences/get-licence.ts'
import { importLicences } from './licences/import-licences.ts'
import { createIssueLicence } from './licences/issue-licence.ts'
import { listLicenceHistory } from './licences/list-licence-history.ts'
import { listLicences } from './licences/list-licences.ts'
import { rotateKey } from './licences/rotate-key.ts'
import { searchLicences } from './licences/search-licences.ts'
import { deleteOverride, setOverride } from './licences/set-override.ts'
import { takePlanValues } from './licences/take-plan-values.ts'
import { updateLicence } from './licences/update-licence.ts'
import { archivePlan, syncDefinitions, syncPlans } from './plans/apply-plan-copies.ts'
import { countActive } from './plans/plan-queries.ts'
import { createGetRevocations } from './revocations/get-revocations.ts'
import { reEncryptPrivateKeys } from './signing-keys/re-encrypt.ts'
import { getRootKeys, retireRootKeys, rotateRootKey } from './signing-keys/root-keys.ts'
import type { RootKeyDependencies } from './signing-keys/root-keys.ts'
import { checkApplicationId } from './signing-keys/signing-keys.ts'
import { createStartTrial } from './trials/start-trial.ts'

/** The calls of vendors, through the gateway, and of catalog. */
export function licensingService(deps: LicensingDependencies) {
  const repeatable = createRepeatable(deps)
  const onLicence = (
    handler: (request: LifecycleRequest) => Promise<MessageInitShape<typeof LicenceSchema>>,
  ) =>
    repeatable(LicenceSchema, handler, {
      isOneChange: true,
      checkCaller: (request) => requireVisible(deps, request),
    })
  const verb = (name: LicenceVerb) => onLicence(createVerbHandler(deps, name))
  return implement(LicensingService, {
    issueLicence: createIssueLicence(deps),
    importLicences: repeatable(ImportLicencesResponseSchema, (request, unfinishedAnswer) =>
      importLicences(deps, request, unfinishedAnswer),
    ),
    getLicence: createGetLicence(deps),
    listLicences: (request) => listLicences(deps, request),
    listLicenceHistory: (request) => listLicenceHistory(deps, request),

    listActivations: (request) => listActivations(deps, request),
    freeActivation: (request) => freeActivation(deps, request),
    searchLicences: (request) => searchLicences(deps, request),
    getApplicationDays: (request) => getApplicationDays(deps, request),

    updateLicence: (request) => updateLicence(deps, request),
    suspendLicence: verb('suspend'),
    reactivateLicence: verb('reactivate'),
    revokeLicence: verb('revoke'),
    retireLicence: verb('retire'),
    takePlanValues: onLicence((request) => takePlanValues(deps, request)),
    rotateLicenceKey: onLicence((request) => rotateKey(deps, request)),

    setOverride: (request) => setOverride(deps, request),
    deleteOverride: (request) => deleteOverride(deps, request),

    syncDefinitions: (request) => syncDefinitions(deps, request),
    syncPlans: (request) => syncPlans(deps, request),
    archivePlan: (request) => archivePlan(deps, request),
    countActiveLicences: async ({ planIds }) => {
      const active = await countActive(deps.sql, planIds)
      return { counts: planIds.map((id) => active.get(id) ?? 0n) }
    },
  })
}

/** The page of the vendor's customers. */
export function customerService(deps: LicensingDependencies, products: ProductDependencies) {
  const repeatable = createRepeatable(deps)
  const getLicence = createGetLicence(deps)
  return implement(CustomerService, {
    createCustomerSession: repeatable(CustomerSessionSchema, (request) =>
      createCustomerSession(deps, products.encryption, request),
    ),
    endCustomerSessions: (request) => endCustomerSessions(deps, request),
    signInWithKey: (request) => signInWithKey(products, request),
    findCustomerSession: ({ token }) => findCustomerSession(products, token),
    getCustomerLicence: (request) => getCustomerLicence(deps, getLicence, request),
    freeCustomerActivation: (request) => freeCustomerActivation(deps, request),
  })
}

/** The calls of installed products. */
export function productService(deps: ProductDependencies) {
  const giveSlot = createGiveSlot(deps)
  const repeatable = createRepeatable(deps)
  return implement(ProductService, {
    activate: (request) => activate(deps, giveSlot, request),
    activateOffline: repeatable(ActivateOfflineResponseSchema, createActivateOffline(deps, giveSlot)),
    refreshActivation: (request) => refreshActivation(deps, request),
    recordCallHome: async (request) => {
      await recordCallHome(deps, await authenticate(deps, request), request)
      return {}
    },
    deactivate: createDeactivate(deps),
    release: createRelease(deps),
    checkActivation: async (request) => {
      await authenticate(deps, request)
      return {}
    },
    getRevocations: createGetRevocations(deps),
    getSigningKeys: async ({ applicationId }) => {
      checkApplicationId(applicationId)
      return { jwksJson: JSON.stringify(await deps.publishedKeys(applicationId)) }
    },
    migrateLegacyKey: (request) => migrateLegacyKey(deps, request),
    startTrial: createStartTrial(deps),
  })
}

export function rootKeyService(deps: RootKeyDependencies & { change: Change }) {
  return implement(RootKeyService, {
    getRootKeys: (request) => getRootKeys(deps, request),
    rotateRootKey: (request) => rotateRootKey(deps, request),
    retireRootKeys: (request) => retireRootKeys(deps, request),
  })
}

const reEncryptBudgetMs = 20_000

/** The operator's change of the encryption key. */
export function secretsService(sql: Database, keys: EncryptionKeys) {
  return implement(SecretsService, {
    reEncrypt: () => reEncryptPrivateKeys(sql, keys, reEncryptBudgetMs),
  })
}
