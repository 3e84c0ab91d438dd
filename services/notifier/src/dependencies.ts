import type { Change } from '@licensing/changes/change'
import type { HandlerOf } from '@licensing/changes/repeatable'
import type { Database } from '@licensing/database/connect'
import type { KeyedQueue } from '@licensing/grpc/keyed-queue'
import type { Clock } from '@licensing/process/clock'
import type { Logger } from '@licensing/process/log'
import type { SendMail } from './alerts/mailer.ts'
import type { Dispatcher } from './dispatch/dispatcher.ts'
import type { EncryptionKeys } from '@licensing/database/encryption'
import type { NotifierService } from '@licensing/proto/notifier'

/** Dependencies of the RPC handlers. */
export interface NotifierDependencies {
  sql: Database
  change: Change
  log: Logger
  clock: Clock
  keys: EncryptionKeys
  /** Payloads of events recorded before this time are past retention. */
  keptSince: () => Date
  /** How long an hour lasts in which attempts are signed with a former secret too. Only tests shorten it. */
  overlapHourMs: number
  /** Milliseconds from the next attempt of a delivery to its last one, by how many attempts have failed. */
  remainingMs: readonly number[]
  dispatcher: Dispatcher
  /** Only one registration of an endpoint at a time runs for each application. */
  registrations: KeyedQueue
  /** Why a URL cannot be registered, as a text for the vendor; null if it can. */
  urlProblem: (url: string) => Promise<string | null>
  /** Undefined if no mail server is configured. */
  sendMail: SendMail | undefined
  /** The public address of the gateway. Links in mails begin with it. */
  publicUrl: string | undefined
}

/** The handler of an RPC. */
export type Handler<Rpc extends keyof (typeof NotifierService)['method']> = HandlerOf<
  typeof NotifierService,
  Rpc,
  NotifierDependencies
>
