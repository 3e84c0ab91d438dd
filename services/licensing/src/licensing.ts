import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { Nats } from '@licensing/events/connection'
import { startConsumer } from '@licensing/events/consumer'
import { deadLettersService } from '@licensing/events/dead-letters-service'
import { startRelay } from '@licensing/events/relay'
import type { RelaySettings } from '@licensing/events/relay'
import type { ServeOptions } from '@licensing/grpc/server'
import { createChange } from '@licensing/changes/change'
import { createBatcher } from '@licensing/changes/batcher'
import { startPurge } from '@licensing/changes/purge'
import { currentTime } from '@licensing/process/clock'
import type { Health } from '@licensing/process/health'
import type { Logger } from '@licensing/process/log'
import { quotaService } from '@licensing/changes/quota-service'
import { startMoves } from '@licensing/moves/moves'
import type { Moves } from '@licensing/moves/moves'
import { accountTables } from './tables.ts'
import { startAddingUp } from './application-days/application-days.ts'
import type { LicensingDependencies, ProductDependencies } from './dependencies.ts'
import { consumePlanEvents } from './plans/apply-plan-copies.ts'
import { startCatchUp } from './plans/catch-up.ts'
import { pushTakesMs, startAwaitedPlans } from './plans/awaited-plans.ts'
import { createSnapshots } from './plans/snapshots.ts'
import { createRecordCallHome } from './call-homes/call-home.ts'
import { findActivations } from './activations/activation-queries.ts'
import { createTakeLease } from './activations/leases.ts'
import { createLookups } from './activations/lookups.ts'
import { publishedKeys } from './signing-keys/signed-key-sets.ts'
import { createSigningKeys, keptSeconds } from './signing-keys/signing-keys.ts'
import { startUpkeep } from './sweeps/upkeep.ts'
import { purchaseService } from './purchases/apply-purchase-effects.ts'
import { connectForKeys, createListQueue } from './pools.ts'
import { replaceEndedPurchases } from './purchases/replace-ended-purchases.ts'
import {
  customerService,
  licensingService,
  productService,
  rootKeyService,
  secretsService,
} from './service.ts'
import { startExpiringNotices } from './sweeps/send-expiring-notices.ts'
import { startSweep } from './sweeps/sweep-expiries.ts'
import { startOverrideSweep } from './sweeps/sweep-overrides.ts'

export interface LicensingOptions {
  sql: Database
  lists: Database
  nats: Nats
  log: Logger
  health: Health
  catalog: LicensingDependencies['catalog']
  encryptionKeys: EncryptionKeys
  tokens: ProductDependencies['tokens']
  sweepIntervalMs: number
  /** Default: a minute. */
  upkeepIntervalMs?: number
  relay: RelaySettings
  now?: () => Date
}

export interface Licensing {
  deps: LicensingDependencies
  productDeps: ProductDependencies
  services: ServeOptions['services']
  checkMoved: Moves['check']
  stop(): Promise<void>
}

/** Starts licensing on open connections and a migrated database. The caller serves the returned services. */
export function startLicensing(options: LicensingOptions): Licensing {
  const { sql, lists, nats, log, catalog, tokens } = options
  const { now = currentTime } = options
  const relay = startRelay({ sql, nats, source: 'licensing', log, ...options.relay })
  const change = createChange(sql, () => relay.wake())
  const snapshots = createSnapshots(sql)
  const deps: LicensingDependencies = {
    sql,
    lists,
    listQueue: createListQueue(lists),
    snapshots,
    change,
    catalog,
    log,
  }
  const moves = startMoves({ sql, log, tables: accountTables, wake: () => days.wake() })
  /** Products name no account: their licence does. */
  const unmoved = <Found extends { account_id: string }>(found: Found | undefined) => {
    if (found) moves.check(found.account_id)
    return found
  }
  const { encryptionKeys: encryption } = options
  const kept = keptSeconds(tokens.lifeSeconds)
  // Two, because valid tokens must not wait for look-ups of unknown keys.
  const [lookupConnection, activationConnection] = [connectForKeys(sql), connectForKeys(sql)]
  const keys = createSigningKeys({ sql, lookups: lookupConnection }, encryption, kept)
  const lookups = createLookups(lookupConnection)
  const findActivation = createBatcher((ids: string[]) => findActivations(activationConnection, ids), {
    maxBatchSize: 100,
    isTransient: isDatabaseUnavailable,
  })
  const productDeps: ProductDependencies = {
    sql,
    log,
    lookups: { ...lookups, licenceOf: async (machine) => unmoved(await lookups.licenceOf(machine)) },
    findActivation: async (id) => unmoved(await findActivation(id)),
    change,
    keys,
    publishedKeys: publishedKeys({ sql, encryption, signingKeys: keys, keptSeconds: kept, now }),
    encryption,
    snapshots,
    tokens,
    callHome: createRecordCallHome(sql, change),
    takeLease: createTakeLease(change),
    replaceEndedPurchase: (licenceId) => replaceEndedPurchases(change, [licenceId], 'wait'),
    now,
  }

  const awaitedPlans = startAwaitedPlans(deps)
  const consumer = startConsumer({
    sql,
    nats,
    source: 'catalog',
    log,
    service: 'licensing',
    handle: consumePlanEvents,
    committed: () => {
      relay.wake()
      awaitedPlans.wakeIn(pushTakesMs)
    },
    isTransient: isDatabaseUnavailable,
  })
  const catchUp = startCatchUp({ ...deps, consumer })
  options.health.add('plan copies', () => catchUp.probe())
  const sweep = startSweep({ sql, change, intervalMs: options.sweepIntervalMs, log })
  const notices = startExpiringNotices({ sql, change, intervalMs: options.sweepIntervalMs, log })
  const overrides = startOverrideSweep({ sql, change, intervalMs: options.sweepIntervalMs, log })
  const purge = startPurge({ sql, log })
  const upkeep = startUpkeep({
    sql,
    change,
    tokenLifeSeconds: tokens.lifeSeconds,
    log,
    intervalMs: options.upkeepIntervalMs,
  })

  const days = startAddingUp({ sql, log })

  return {
    deps,
    productDeps,
    services: [
      licensingService(deps),
      productService(productDeps),
      customerService(deps, productDeps),
      rootKeyService({ sql, encryption, change }),
      purchaseService(deps),
      deadLettersService({
        sql,
        log,
        isTransient: isDatabaseUnavailable,
        handlers: { catalog: consumePlanEvents },
      }),
      secretsService(sql, encryption),
      quotaService(change, ['activations', 'hosts', 'deactivations', 'idempotency_bytes', 'trials_per_day']),
      moves.service,
    ],
    checkMoved: moves.check,
    async stop() {
      const loops = [moves, catchUp, awaitedPlans, sweep, notices, overrides, upkeep, days, purge]
      await Promise.all([consumer.stop(), ...loops.map((loop) => loop.stop())])
      await relay.stop()
      await Promise.all([lookupConnection, activationConnection].map((sql) => sql.end({ timeout: 5 })))
    },
  }
}
