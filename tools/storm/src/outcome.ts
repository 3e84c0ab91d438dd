import type { HistoryType, LicenceStatus, LicenceVerb } from '@licensing/proto/closed-sets'

// The outcome of a storm as plain data: all requests and answers, and the data of the system when no work is pending. The
// checks read nothing else. Times are milliseconds since the epoch.

/** 4xx is `refused`. After 5xx or no answer it is `unknown` whether the request was executed. */
export type Answered = 'acknowledged' | 'refused' | 'unknown'

interface Item {
  legacyKey: string
  externalRef: string
  planId: string
}

/** The fields of each kind of request that the checks need. */
interface Requests {
  issue: Texts<'appId' | 'key' | 'externalRef' | 'planId'>
  import: { appId: string; items: Item[] }
  verb: { verb: LicenceVerb; licenceId: string }
  'create plan': Texts<'appId' | 'code' | 'name'>
  'rename plan': Texts<'planId' | 'name'>
  archive: Texts<'planId'>
  restore: Texts<'planId'>
  define: Texts<'appId' | 'key'>
  'delete definition': Texts<'definitionId'>
  activate: { licenceId: string; fingerprint: string; replaces: boolean }
  refresh: Texts<'activationId'>
  'call home': Texts<'activationId'>
  release: Texts<'activationId'>
  free: Texts<'activationId'>
  /** By the customer, with a link. */
  remove: Texts<'activationId' | 'licenceId'>
  try: Texts<'appId' | 'fingerprint'>
  migrate: Texts<'appId' | 'legacyKey'>
  checkout: Texts<'appId' | 'externalRef' | 'planId'>
  sale: Texts<'appId' | 'saleId' | 'externalRef' | 'planId'>
  /** A report of another shop about its sale. */
  'sale fact': Texts<'appId' | 'saleId' | 'kind' | 'id'>
  'create endpoint': Texts<'appId' | 'url'>
  'change endpoint': { endpointId: string } & Partial<Texts<'url' | 'description' | 'header'>>
  rotate: Texts<'endpointId'>
  test: Texts<'endpointId'>
  'delete endpoint': Texts<'endpointId'>
  cap: { accountId: string; capMinor: number | null }
  'create key': Texts<'accountId' | 'name'>
  'revoke key': Texts<'keyId'>
  read: Texts<'path'>
}

type Texts<Name extends string> = Record<Name, string>

/** The request of a client. */
export type Asked<Do extends keyof Requests = keyof Requests> = {
  [Each in Do]: { do: Each } & Requests[Each]
}[Do]

export interface Sent<Do extends keyof Requests = keyof Requests> {
  asked: Asked<Do>
  from: number
  to: number
  answered: Answered
  /** 0 if there was no answer. */
  status: number
  /** The JSON of the answer; secrets and keys are in it. */
  body: Record<string, unknown>
}

export interface Licence extends Texts<'id' | 'appId' | 'planId' | 'externalRef'> {
  status: LicenceStatus
  legacyKey: string | null
  idempotencyKey: string | null
  maxActivations: number | null
  maxConcurrent: number | null
  expiresOn: number | null
}

export interface HistoryEntry extends Texts<'licenceId' | 'actor'> {
  position: number
  at: number
  type: HistoryType
  from: LicenceStatus | null
  to: LicenceStatus
  cause: string | null
}

export interface Envelope extends Texts<'id' | 'type' | 'accountId' | 'appId'> {
  sequence: number
  createdAt: number
  object: Record<string, unknown>
  /** The exact bytes. */
  body: string
}

export interface Endpoint extends Texts<'id' | 'appId' | 'url' | 'status'> {
  disabledReason: string | null
  description: string | null
  /** Whether the storm chose this endpoint as dead: it never answers. */
  dead: boolean
}

/** The part of an endpoint's URL that stays when it is changed. */
export const baseOf = (url: string): string => url.split('?')[0]!

/** A request that reached a receiver. `body` must equal the body of the event in the feed. */
export interface Arrival extends Texts<'url' | 'eventId' | 'body' | 'signature'> {
  /** The header that the vendor has set for the endpoint. */
  header: string | undefined
  /** It was answered with 2xx. */
  accepted: boolean
}

export interface Payment extends Texts<'id' | 'sourceKey'> {
  sessionId: string | null
  saleId: string | null
  invoiceRef: string | null
  licenceId: string | null
  chargeRef: string | null
  amount: number
  feeMinor: number
}

/** Money that went back from a charge. */
interface Returned {
  ref: string
  chargeRef: string
  amount: number
}

/** Payments, refunds and disputes at the processor. */
export interface Processor {
  /** Sessions paid, by our session's id. */
  paid: { sessionId: string; amount: number }[]
  /** Invoices paid after a subscription's first. */
  renewals: { invoiceRef: string; amount: number }[]
  refunds: Returned[]
  chargebacks: Returned[]
  /** Sessions with an ended subscription. */
  ended: string[]
}

export interface Outcome {
  accounts: Texts<'accountId' | 'appId'>[]
  sent: Sent[]
  feedReads: { accountId: string; events: { id: string; sequence: number }[] }[]
  /** Lists that were read page by page during the storm. */
  walks: { appId: string; from: number; ids: string[] }[]
  licences: Licence[]
  history: HistoryEntry[]
  plans: (Texts<'id' | 'appId' | 'code' | 'name' | 'status'> & { activeLicences: number })[]
  /** Plans of the catalog, and licensing's copies of them. */
  catalogPlans: { id: string; status: string; version: number }[]
  planCopies: { id: string; status: string; version: number }[]
  definitions: Texts<'id' | 'appId' | 'key'>[]
  /** `deactivated`: its product has deactivated it, and it still keeps its slot. */
  activations: (Texts<'id' | 'licenceId' | 'fingerprint'> & { deactivated: boolean })[]
  /** How many leases of a floating licence have not ended. */
  leases: { licenceId: string; running: number }[]
  /** The trials that machines have had. */
  trials: Texts<'appId' | 'fingerprintHash' | 'licenceId'>[]
  apiKeys: (Texts<'id' | 'accountId' | 'name'> & { revoked: boolean; accepted: boolean | null })[]
  /** In the order of their times. */
  auditLog: (Texts<'operation' | 'resourceId'> & {
    appId: string | null
    changes: Record<string, { from: unknown; to: unknown }>
  })[]
  capMinor: { accountId: string; capMinor: number | null; reached: number }[]
  events: Envelope[]
  endpoints: Endpoint[]
  deliveries: Texts<'id' | 'endpointId' | 'eventId' | 'status'>[]
  arrivals: Arrival[]
  sessions: (Texts<'id' | 'appId' | 'externalRef' | 'status'> & {
    licenceId: string | null
    amount: number
  })[]
  sales: (Texts<'id' | 'appId' | 'saleId' | 'status'> & { licenceId: string | null })[]
  saleFacts: (Texts<'appId' | 'saleId' | 'kind' | 'id'> & {
    at: number
    amount: number | null
    renewalId: string | null
  })[]
  payments: Payment[]
  refunds: (Texts<'id' | 'paymentId' | 'ref' | 'lane'> & { amount: number; processed: boolean })[]
  fees: (Texts<'id' | 'paymentId' | 'kind'> & { amountMinor: number })[]
  /** Rows of licensing that link a payment to the licence that it provisioned. */
  provisions: Texts<'appId' | 'paymentRef' | 'licenceId'>[]
  revocations: { appId: string; version: number; licenceId: string }[]
  processor: Processor
  /** Stored counters, and the numbers of rows that they should equal. */
  counters: { name: string; kept: number; counted: number }[]
  /** Numbers that should be zero: events in outboxes, dead letters, unhandled events of the processor, lags of consumers. */
  leftovers: { name: string; count: number }[]
  /** Milliseconds until the whole stack was ready for the first time. */
  startMs: number
  /** Milliseconds from the end of the faults to /readyz; null if it did not become ready. */
  ready: { process: string; afterMs: number | null }[]
  /** Processes that ended although no fault ended them. */
  crashes: { process: string; at: number }[]
}
