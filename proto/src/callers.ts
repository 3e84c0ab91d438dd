import type { DescService } from '@bufbuild/protobuf'
import { BillingService } from '../gen/billing/v1/billing_pb.ts'
import { BillingOperationsService } from '../gen/billing/v1/operations_pb.ts'
import { CatalogService } from '../gen/catalog/v1/catalog_pb.ts'
import { CatalogOperationsService } from '../gen/catalog/v1/operations_pb.ts'
import { DeadLettersService } from '../gen/events/v1/dead_letters_pb.ts'
import { CustomerService } from '../gen/licensing/v1/customers_pb.ts'
import { LicensingService } from '../gen/licensing/v1/licensing_pb.ts'
import { ProductService } from '../gen/licensing/v1/products_pb.ts'
import { PurchaseService } from '../gen/licensing/v1/purchases_pb.ts'
import { RootKeyService } from '../gen/licensing/v1/root_keys_pb.ts'
import { NotifierService } from '../gen/notifier/v1/notifier_pb.ts'
import { MoveService } from '../gen/moves/v1/moves_pb.ts'
import { QuotaService } from '../gen/quotas/v1/quotas_pb.ts'
import { SecretsService } from '../gen/secrets/v1/secrets_pb.ts'

export type Callee = 'catalog' | 'licensing' | 'billing' | 'notifier'
export type Caller = Callee | 'gateway'

/** RPCs of a service that a component may call. */
interface Grant {
  on: Callee
  service: DescService
  methods: readonly string[]
}

function grant<S extends DescService>(
  on: Callee,
  service: S,
  ...methods: (keyof S['method'] & string)[]
): Grant {
  return { on, service, methods }
}

const moves = (on: Callee) =>
  grant(
    on,
    MoveService,
    'changeMove',
    'getMove',
    'fence',
    'getOutbox',
    'hasConsumed',
    'exportRows',
    'importRows',
  )

/** Every call that components make to each other. All other calls are refused. `licensing-admin` calls in the name of catalog. */
export const grants: Readonly<Record<Caller, readonly Grant[]>> = {
  gateway: [
    grant(
      'catalog',
      CatalogService,
      'authenticateKey',
      'authenticateKeys',
      'authenticateMember',
      'getAccount',
      'updateAccount',
      'findAlertEmailConfirmation',
      'confirmAlertEmail',
      'createApplication',
      'getApplication',
      'updateApplication',
      'findApplicationOwner',
      'findCustomerPage',
      'listApplications',
      'createApiKey',
      'getApiKey',
      'listApiKeys',
      'revokeApiKey',
      'createMember',
      'getMember',
      'listMembers',
      'updateMember',
      'removeMember',
      'useSignInState',
      'findMembersOfPerson',
      'signIn',
      'nameActors',
      'createEntitlementDefinition',
      'getEntitlementDefinition',
      'listEntitlementDefinitions',
      'updateEntitlementDefinition',
      'deleteEntitlementDefinition',
      'createPlan',
      'getPlan',
      'listPlans',
      'updatePlan',
      'archivePlan',
      'restorePlan',
      'listAuditLog',
    ),
    grant(
      'licensing',
      LicensingService,
      'issueLicence',
      'importLicences',
      'getLicence',
      'listLicences',
      'listLicenceHistory',
      'listActivations',
      'freeActivation',
      'searchLicences',
      'getApplicationDays',
      'updateLicence',
      'suspendLicence',
      'reactivateLicence',
      'revokeLicence',
      'retireLicence',
      'setOverride',
      'deleteOverride',
      'takePlanValues',
      'rotateLicenceKey',
    ),
    grant(
      'licensing',
      ProductService,
      'activate',
      'activateOffline',
      'refreshActivation',
      'recordCallHome',
      'deactivate',
      'release',
      'startTrial',
      'checkActivation',
      'getRevocations',
      'getSigningKeys',
      'migrateLegacyKey',
    ),
    grant(
      'licensing',
      CustomerService,
      'createCustomerSession',
      'endCustomerSessions',
      'signInWithKey',
      'findCustomerSession',
      'getCustomerLicence',
      'freeCustomerActivation',
    ),
    grant('licensing', RootKeyService, 'getRootKeys'),
    grant(
      'billing',
      BillingService,
      'connectProcessor',
      'getProcessor',
      'beginProcessorAuthorization',
      'receiveProcessorAuthorization',
      'confirmProcessorAuthorization',
      'receiveProcessorEvent',
      'setPrice',
      'getPrice',
      'deletePrice',
      'createCheckoutSession',
      'getCheckoutSession',
      'replayCheckoutSession',
      'listCheckoutSessions',
      'recordSaleEvent',
      'listSaleEvents',
      'getSaleEvent',
      'reportSaleFact',
      'findLicencesOfSale',
      'getPaymentDays',
      'listPayments',
      'listRefunds',
      'listFees',
      'getSpendCap',
      'setSpendCap',
      'getSubscription',
      'createSubscriptionSession',
    ),
    grant(
      'notifier',
      NotifierService,
      'createEndpoint',
      'getEndpoint',
      'listEndpoints',
      'deleteEndpoint',
      'updateEndpoint',
      'rotateSecret',
      'sendTestEvent',
      'recoverEndpoint',
      'listDeliveries',
      'getDelivery',
      'listAttempts',
      'replayDelivery',
      'listEvents',
      'getLatestSequence',
      'listAlerts',
      'getDeliveryMetrics',
    ),
  ],
  catalog: [
    moves('catalog'),
    moves('licensing'),
    moves('billing'),
    moves('notifier'),
    grant('catalog', CatalogOperationsService, 'createAccount', 'listAccounts', 'setFee', 'revokeAnyApiKey'),
    grant(
      'catalog',
      CatalogService,
      'createApiKey',
      'findApplicationOwner',
      'getAccount',
      'listApiKeys',
      'listApplications',
    ),
    grant('catalog', DeadLettersService, 'listDeadLetters', 'retryDeadLetters', 'discardDeadLetter'),
    grant('catalog', QuotaService, 'setQuota'),
    grant(
      'licensing',
      LicensingService,
      'syncPlans',
      'syncDefinitions',
      'archivePlan',
      'countActiveLicences',
    ),
    grant('licensing', RootKeyService, 'getRootKeys', 'rotateRootKey', 'retireRootKeys'),
    grant('licensing', DeadLettersService, 'listDeadLetters', 'retryDeadLetters', 'discardDeadLetter'),
    grant('licensing', QuotaService, 'setQuota'),
    grant('licensing', SecretsService, 'reEncrypt'),
    grant('notifier', NotifierService, 'sendConfirmation'),
    grant('notifier', DeadLettersService, 'listDeadLetters', 'retryDeadLetters', 'discardDeadLetter'),
    grant('notifier', QuotaService, 'setQuota'),
    grant('notifier', SecretsService, 'reEncrypt'),
    grant(
      'billing',
      BillingOperationsService,
      'listProcessorEvents',
      'retryProcessorEvent',
      'discardProcessorEvent',
      'resendEffects',
      'describeProcessorWebhook',
      'createProcessorWebhook',
    ),
    grant('billing', QuotaService, 'setQuota'),
  ],
  licensing: [grant('catalog', CatalogService, 'getPlanCopy', 'getCopyEpoch', 'listPlanCopies')],
  billing: [
    grant('catalog', CatalogService, 'getAccount', 'getPlanCopy', 'listApplications'),
    grant('licensing', PurchaseService, 'applyPurchaseEffects'),
    grant('licensing', LicensingService, 'getLicence'),
  ],
  notifier: [grant('catalog', CatalogService, 'getAccount')],
}

const allowed = new Set(
  Object.entries(grants).flatMap(([caller, all]) =>
    all.flatMap(({ on, service, methods }) =>
      methods.map((method) => [caller, on, service.typeName, method].join(' ')),
    ),
  ),
)

/** Whether a component may call an RPC of another. */
export function mayCall(caller: string, on: Callee, service: string, method: string): boolean {
  return allowed.has([caller, on, service, method].join(' '))
}
