import type { Change } from '@licensing/changes/change'
import type { HandlerOf } from '@licensing/changes/repeatable'
import type { Database } from '@licensing/database/connect'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Logger } from '@licensing/process/log'
import type { CatalogService } from '@licensing/proto/catalog'
import type { LicensingService } from '@licensing/proto/licensing'
import type { PurchaseService } from '@licensing/proto/purchases'
import type { BillingService } from '@licensing/proto/billing'
import type { ProcessorClaim } from './config.ts'
import type { PaymentProcessor } from './processor/stripe/stripe-processor.ts'

/** The stages from an event to its effect: purchases/README.md describes them. */
export type Stage = 'record' | 'decide' | 'ask' | 'send'

/** The dependencies of the RPC handlers. */
export interface BillingDependencies {
  sql: Database
  change: Change
  processor: PaymentProcessor
  /** How a vendor connects an account at the processor. */
  processorClaim: ProcessorClaim
  catalog: Pick<ServiceClient<typeof CatalogService>, 'getAccount' | 'getPlanCopy' | 'listApplications'>
  purchases: Pick<ServiceClient<typeof PurchaseService>, 'applyPurchaseEffects'>
  licences: Pick<ServiceClient<typeof LicensingService>, 'getLicence'>
  /** How many consecutive failed payments of a subscription suspend its licence. */
  failuresBeforeSuspend: number
  /** How long after the end of its period a subscription that is not cancelled remains valid. */
  subscriptionGraceMs: number
  log: Logger
  /** Runs a stage now, because there may be work for it. */
  wake: (stage: Stage) => void
}

/** The handler of an RPC. */
export type Handler<Rpc extends keyof (typeof BillingService)['method']> = HandlerOf<
  typeof BillingService,
  Rpc,
  BillingDependencies
>
