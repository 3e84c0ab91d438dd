import { createChange } from '@licensing/changes/change'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { oneConnection } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { Nats } from '@licensing/events/connection'
import { startConsumer } from '@licensing/events/consumer'
import { deadLettersService } from '@licensing/events/dead-letters-service'
import { startRelay } from '@licensing/events/relay'
import type { RelaySettings } from '@licensing/events/relay'
import type { ServeOptions } from '@licensing/grpc/server'
import { createKeyedQueue } from '@licensing/grpc/keyed-queue'
import { startPurge } from '@licensing/changes/purge'
import { quotaService } from '@licensing/changes/quota-service'
import { startMoves } from '@licensing/moves/moves'
import type { Moves } from '@licensing/moves/moves'
import { sources } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { accountTables } from './tables.ts'
import { findApplicationIds } from './applications/application-queries.ts'
import { sendConfirmations } from './accounts/alert-email.ts'
import type { ConfirmationSender } from './accounts/alert-email.ts'
import { consumeEntries, startDeletingEntries } from './audit-log/audit-log.ts'
import { createKeyUse } from './api-keys/key-use.ts'
import type { CatalogDependencies } from './dependencies.ts'
import { catalogOperationsService } from './operations-service.ts'
import { catalogService } from './service.ts'

const confirmationsEveryMs = 5_000

export interface CatalogOptions extends Pick<
  CatalogDependencies,
  'sql' | 'log' | 'licensing' | 'rootKeys' | 'newAccountFee'
> {
  nats: Nats
  notifier: ConfirmationSender
  relay: RelaySettings
}

export interface Catalog {
  deps: CatalogDependencies
  services: ServeOptions['services']
  checkMoved: Moves['check']
  stop(): Promise<void>
}

/** Starts all of catalog except its connections and its gRPC server. The database is migrated. */
export function startCatalog({
  sql,
  nats,
  log,
  licensing,
  rootKeys,
  notifier,
  newAccountFee,
  relay: relaySettings,
}: CatalogOptions): Catalog {
  const relay = startRelay({ sql, nats, source: 'catalog', log, ...relaySettings })
  const change = createChange(sql, () => relay.wake())
  const lookups = oneConnection(sql)
  const keyUse = createKeyUse(sql, log)
  const queue = createKeyedQueue(
    'other changes are being made to this account or application: try again; nothing was changed',
  )
  const confirmations = startDatabaseLoop('confirmation mails', log, confirmationsEveryMs, (signal) =>
    sendConfirmations({ sql, log, notifier }, signal),
  )
  const deps: CatalogDependencies = {
    sql,
    lookups,
    change,
    queue,
    pushes: createKeyedQueue(
      'other changes of this application are being saved: try again; the change is saved',
    ),
    licensing,
    rootKeys,
    keyUse,
    newAccountFee,
    confirmationRequested: () => confirmations.wake(),
    log,
  }
  const moves = startMoves({
    sql,
    log,
    tables: accountTables,
    findApplications: (accountId) => findApplicationIds(sql, accountId),
  })
  const rounds = [moves, startPurge({ sql, log }), startDeletingEntries({ sql, log })]
  const isTransient = isDatabaseUnavailable
  const handlers = {
    catalog: consumeEntries,
    licensing: consumeEntries,
    billing: consumeEntries,
    notifier: consumeEntries,
  } satisfies Record<Source, unknown>
  const consumers = sources.map((source) =>
    startConsumer({ sql, nats, log, service: 'catalog', source, handle: handlers[source], isTransient }),
  )
  return {
    deps,
    services: [
      catalogService(deps, moves.check),
      catalogOperationsService(deps),
      deadLettersService({ sql, log, isTransient, handlers }),
      quotaService(change, [
        'applications',
        'api_keys',
        'members',
        'plans',
        'entitlement_defs',
        'idempotency_bytes',
      ]),
      moves.service,
    ],
    checkMoved: moves.check,
    async stop() {
      await Promise.all(consumers.map((consumer) => consumer.stop()))
      await Promise.all([...rounds, keyUse, relay, confirmations].map((each) => each.stop()))
      await lookups.end({ timeout: 5 })
    },
  }
}
