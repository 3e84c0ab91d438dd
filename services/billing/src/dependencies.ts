import type { Database } from '@licensing/database/connect'
import type { Outbox } from '@licensing/events/outbox'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Logger } from '@licensing/process/log'
import type { CatalogService } from '@licensing/proto/catalog'
import type { PurchaseService } from '@licensing/proto/purchases'
import type { ProcessorClaim } from './config.ts'
import type { PaymentProcessor } from './processor/processor.ts'

/** From event to effect, in one direction. */
export type Stage = 'record' | 'decide' | 'carry out' | 'ask'

/** What the handlers need. */
export interface BillingDependencies {
  sql: Database
  outbox: Outbox
  processor: PaymentProcessor
  /** How a vendor connects an account at the processor. */
  processorClaim: ProcessorClaim
  catalog: Pick<ServiceClient<typeof CatalogService>, 'getAccount' | 'getPlanCopy' | 'listApplications'>
  purchases: Pick<ServiceClient<typeof PurchaseService>, 'applyPurchaseEffects'>
  /** Failed payments of a subscription in a row that suspend its licence. */
  failuresBeforeSuspend: number
  /** How long after its period's end a subscription that is not cancelled still stands. */
  subscriptionGraceMs: number
  log: Logger
  /** There may be something to do. */
  wake: (stage: Stage) => void
}
