import type { Nats } from '@licensing/events/connection'
import { createChange } from '@licensing/changes/change'
import { startRelay } from '@licensing/events/relay'
import type { RelaySettings } from '@licensing/events/relay'
import type { ServeOptions } from '@licensing/grpc/server'
import { startPurge } from '@licensing/changes/purge'
import { quotaService } from '@licensing/changes/quota-service'
import type { BillingDependencies } from './dependencies.ts'
import { startMoves } from '@licensing/moves/moves'
import type { Moves } from '@licensing/moves/moves'
import { accountTables, underWay } from './tables.ts'
import { startFeeRefunds } from './fees/fee-refunds.ts'
import { startReconciliation } from './inbox/missed-events.ts'
import { billingOperationsService } from './operations-service.ts'
import { startAddingUp } from './payment-days/payment-days.ts'
import { startStages } from './purchases/stages.ts'
import type { Stages } from './purchases/stages.ts'
import { billingService } from './service.ts'

export interface BillingOptions extends Omit<BillingDependencies, 'change' | 'wake'> {
  nats: Nats
  /** Pause between two comparisons with the processor's list of events. If it is absent, nothing is compared. */
  reconcileIntervalMs?: number
  relay: RelaySettings
}

export interface Billing {
  deps: BillingDependencies
  services: ServeOptions['services']
  checkMoved: Moves['check']
  stop(): Promise<void>
}

/** Starts all of billing except its connections and its gRPC server. The database is migrated. */
export function startBilling(options: BillingOptions): Billing {
  const { nats, reconcileIntervalMs, relay: relaySettings, ...settings } = options
  const { sql, log } = settings
  const relay = startRelay({ sql, nats, source: 'billing', log, ...relaySettings })
  let stages: Stages | undefined
  const deps: BillingDependencies = {
    ...settings,
    change: createChange(sql, () => relay.wake()),
    wake: (stage) => stages?.wake(stage),
  }
  stages = startStages(deps)
  const moves = startMoves({ sql, log, tables: accountTables, underWay, wake: () => days.wake() })
  const days = startAddingUp(deps)
  const rounds = [moves, startFeeRefunds(deps), days, startPurge(deps)]
  if (reconcileIntervalMs) rounds.push(startReconciliation(deps, reconcileIntervalMs))
  return {
    deps,
    services: [
      billingService(deps),
      billingOperationsService(deps),
      quotaService(deps.change, ['idempotency_bytes']),
      moves.service,
    ],
    checkMoved: moves.check,
    async stop() {
      await Promise.all(rounds.map((each) => each.stop()))
      await stages.stop()
      await relay.stop()
    },
  }
}
