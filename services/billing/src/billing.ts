import type { Database } from '@licensing/database/connect'
import type { Nats } from '@licensing/events/connection'
import { createChange } from '@licensing/changes/change'
import { startRelay } from '@licensing/events/relay'
import type { ServeOptions } from '@licensing/grpc/server'
import { startPurge } from '@licensing/changes/purge'
import type { Logger } from '@licensing/process/log'
import { quotaService } from '@licensing/quotas/quota-service'
import type { BillingDependencies } from './dependencies.ts'
import { startFeeRefunds } from './fees/fee-refunds.ts'
import { startFulfilment } from './fulfilment/fulfilment.ts'
import type { Fulfilment } from './fulfilment/fulfilment.ts'
import { startAddingUp } from './payment-days/add-up.ts'
import { billingOperationsService } from './processor-events/operations-service.ts'
import { startReconciliation } from './processor-events/reconcile.ts'
import { startResumedSales } from './sale-events/resume-sales.ts'
import { billingService } from './service.ts'

export interface BillingOptions {
  sql: Database
  nats: Nats
  log: Logger
  catalog: BillingDependencies['catalog']
  purchases: BillingDependencies['purchases']
  processor: BillingDependencies['processor']
  processorClaim: BillingDependencies['processorClaim']
  failuresBeforeSuspend: number
  subscriptionGraceMs: number
  /** Pause between two comparisons with the processor's list of events; none is made when absent. */
  reconcileIntervalMs?: number
  streamReplicas: number
  streamBytes?: number
}

export interface Billing {
  deps: BillingDependencies
  services: ServeOptions['services']
  stop(): Promise<void>
}

/** Everything of billing but its connections and the server of its RPCs. Its database is migrated. */
export function startBilling(options: BillingOptions): Billing {
  const { sql, nats, log, streamReplicas } = options
  const relay = startRelay({
    sql,
    nats,
    source: 'billing',
    streamReplicas,
    streamBytes: options.streamBytes,
    log,
  })
  let fulfilment: Fulfilment | undefined
  const deps: BillingDependencies = {
    sql,
    change: createChange(sql, () => relay.wake()),
    processor: options.processor,
    catalog: options.catalog,
    purchases: options.purchases,
    processorClaim: options.processorClaim,
    failuresBeforeSuspend: options.failuresBeforeSuspend,
    subscriptionGraceMs: options.subscriptionGraceMs,
    log,
    wake: (stage) => fulfilment?.wake(stage),
  }
  fulfilment = startFulfilment(deps)
  const rounds = [startFeeRefunds(deps), startResumedSales(deps), startAddingUp(deps), startPurge(deps)]
  if (options.reconcileIntervalMs) rounds.push(startReconciliation(deps, options.reconcileIntervalMs))
  return {
    deps,
    services: [
      billingService(deps),
      billingOperationsService(deps),
      quotaService(sql, ['idempotency_bytes']),
    ],
    async stop() {
      await Promise.all(rounds.map((each) => each.stop()))
      await fulfilment.stop()
      await relay.stop()
    },
  }
}
