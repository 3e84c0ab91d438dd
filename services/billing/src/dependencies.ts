import type { Database } from '@licensing/database/connect'
import type { Outbox } from '@licensing/events/outbox'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Logger } from '@licensing/process/log'
import type { CatalogService } from '@licensing/proto/catalog'
import type { LicensingService } from '@licensing/proto/licensing'
import type { PaymentProcessor } from './processors/processor.ts'

/** What the handlers need, made in main.ts. */
export interface BillingDeps {
  sql: Database
  outbox: Outbox
  processor: PaymentProcessor
  catalog: Pick<ServiceClient<typeof CatalogService>, 'getAccount' | 'getPlanCopy' | 'listApplications'>
  licensing: Pick<
    ServiceClient<typeof LicensingService>,
    | 'provisionLicence'
    | 'renewLicence'
    | 'expireLicence'
    | 'suspendForPayment'
    | 'resumeFromInquiry'
    | 'revokeForRefund'
    | 'downgradeForRefund'
  >
  /** Failed payments of a subscription in a row that suspend its licence. */
  failuresBeforeSuspend: number
  log: Logger
  /** There may be something in the inbox. */
  wakeInbox: () => void
}
