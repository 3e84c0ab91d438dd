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

/** The named RPCs of a service; if none is named, all of them. */
function grant<S extends DescService>(
  on: Callee,
  service: S,
  ...methods: (keyof S['method'] & string)[]
): Grant {
  return { on, service, methods: methods.length > 0 ? methods : Object.keys(service.method) }
}

/** All RPCs of a service except the named ones. */
function grantExcept<S extends DescService>(
  on: Callee,
  service: S,
  ...others: (keyof S['method'] & string)[]
): Grant {
  const methods = Object.keys(service.method).filter((name) => !others.includes(name))
  return { on, service, methods }
}

const callees: readonly Callee[] = ['catalog', 'licensing', 'billing', 'notifier']

/** Every call that components make to each other. All other calls are refused. `licensing-admin` calls in the name of catalog. */
export const grants: Readonly<Record<Caller, readonly Grant[]>> = {
  gateway: [
    grantExcept('catalog', CatalogService, 'getPlanCopy', 'getCopyEpoch', 'listPlanCopies'),
    grantExcept(
      'licensing',
      LicensingService,
      'syncPlans',
      'syncDefinitions',
      'archivePlan',
      'countActiveLicences',
    ),
    grant('licensing', ProductService),
    grant('licensing', CustomerService),
    grant('licensing', RootKeyService, 'getRootKeys'),
    grant('billing', BillingService),
    grantExcept('notifier', NotifierService, 'sendConfirmation'),
  ],
  catalog: [
    ...callees.flatMap((on) => [grant(on, MoveService), grant(on, QuotaService)]),
    ...(['catalog', 'licensing', 'notifier'] as const).map((on) => grant(on, DeadLettersService)),
    ...(['licensing', 'notifier'] as const).map((on) => grant(on, SecretsService)),
    grant('catalog', CatalogOperationsService),
    grant(
      'catalog',
      CatalogService,
      'createApiKey',
      'findApplicationOwner',
      'getAccount',
      'listApiKeys',
      'listApplications',
    ),
    grant(
      'licensing',
      LicensingService,
      'syncPlans',
      'syncDefinitions',
      'archivePlan',
      'countActiveLicences',
    ),
    grant('licensing', RootKeyService),
    grant('notifier', NotifierService, 'sendConfirmation'),
    grant('billing', BillingOperationsService),
  ],
  licensing: [grant('catalog', CatalogService, 'getPlanCopy', 'getCopyEpoch', 'listPlanCopies')],
  billing: [
    grant('catalog', CatalogService, 'getAccount', 'getPlanCopy', 'listApplications'),
    grant('licensing', PurchaseService),
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
