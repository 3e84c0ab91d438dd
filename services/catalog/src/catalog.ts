import { createChange } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
import { oneConnection } from '@licensing/database/connect'
import type { Nats } from '@licensing/events/connection'
import { startRelay } from '@licensing/events/relay'
import type { ServeOptions } from '@licensing/grpc/server'
import { createTurns } from '@licensing/grpc/turns'
import { startPurge } from '@licensing/changes/purge'
import type { Logger } from '@licensing/process/log'
import { isDatabaseOutage } from '@licensing/database/problems'
import { startLoop } from '@licensing/process/loop'
import { sendConfirmations } from './accounts/alert-email.ts'
import type { ConfirmationSender } from './accounts/alert-email.ts'
import { createKeyUse } from './api-keys/key-use.ts'
import type { CatalogDependencies } from './dependencies.ts'
import { catalogService } from './service.ts'

const confirmationsEveryMs = 5_000

export interface CatalogOptions {
  sql: Database
  nats: Nats
  log: Logger
  licensing: CatalogDependencies['licensing']
  rootKeys: CatalogDependencies['rootKeys']
  notifier: { calls: ConfirmationSender }
  streamReplicas: number
  streamBytes?: number
}

export interface Catalog {
  deps: CatalogDependencies
  services: ServeOptions['services']
  stop(): Promise<void>
}

/** Everything of the catalog but its connections and the server of its RPCs. Its database is migrated. */
export function startCatalog({
  sql,
  nats,
  log,
  licensing,
  rootKeys,
  notifier,
  streamReplicas,
  streamBytes,
}: CatalogOptions): Catalog {
  const relay = startRelay({ sql, nats, source: 'catalog', streamReplicas, streamBytes, log })
  const change = createChange(sql, () => relay.wake())
  const lookups = oneConnection(sql)
  const keyUse = createKeyUse(sql, log)
  const queue = createTurns(
    'other changes are being made to this account or application: try again; nothing was changed',
  )
  const confirmations = startLoop({
    work: (signal) => sendConfirmations({ sql, log, notifier: notifier.calls }, signal),
    everyMs: confirmationsEveryMs,
    failed: (error) => log.warn({ err: error }, 'confirmation mails could not be read, trying again'),
    isOutage: isDatabaseOutage,
  })
  const deps: CatalogDependencies = {
    sql,
    lookups,
    change,
    queue,
    licensing,
    rootKeys,
    keyUse,
    confirmationRequested: () => confirmations.wake(),
    log,
  }
  const purge = startPurge({ sql, log })
  return {
    deps,
    services: [catalogService(deps)],
    async stop() {
      await Promise.all([keyUse.stop(), relay.stop(), purge.stop(), confirmations.stop()])
      await lookups.end({ timeout: 5 })
    },
  }
}
