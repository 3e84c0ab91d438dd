import type { LicenceVerb } from '@licensing/proto/closed-sets'

// The outcome of a storm as plain data: all requests and answers, and the data of the system when no work is pending. The
// checks read nothing else.

/** 4xx is `refused`. After 5xx or no answer it is `unknown` whether the request was executed. */
export type Answered = 'acknowledged' | 'refused' | 'unknown'

/** The request of a client. */
export type Asked =
  | { do: 'issue'; appId: string; key: string; externalRef: string; planId: string }
  | { do: 'import'; appId: string; items: { legacyKey: string; externalRef: string; planId: string }[] }
  | { do: 'verb'; verb: LicenceVerb; licenceId: string }
  | { do: 'create plan'; appId: string; code: string; name: string }
  | { do: 'rename plan'; planId: string; name: string }
  | { do: 'archive' | 'restore'; planId: string }
  | { do: 'define'; appId: string; key: string }
  | { do: 'delete definition'; definitionId: string }
  | { do: 'activate'; licenceId: string; fingerprint: string; replaces: boolean }
  | { do: 'refresh' | 'call home' | 'release' | 'free'; activationId: string }
  | { do: 'try'; appId: string; fingerprint: string }
  | { do: 'migrate'; appId: string; legacyKey: string }
  | { do: 'checkout'; appId: string; externalRef: string; planId: string }
  | { do: 'sale'; appId: string; saleId: string; externalRef: string; planId: string; amount: number }
  | { do: 'create endpoint'; appId: string; url: string }
  | { do: 'rotate' | 'test' | 'delete endpoint'; endpointId: string }
  | { do: 'cap'; accountId: string; capMinor: number | null }
  | { do: 'create key'; accountId: string; name: string }
  | { do: 'revoke key'; keyId: string }
  | { do: 'read'; path: string }

export interface Sent {
  asked: Asked
  /** Milliseconds since the epoch. */
  from: number
  to: number
  answered: Answered
  /** 0 if there was no answer. */
  status: number
  /** The error code of a refusal. */
  code: string | null
  /** The JSON of the answer; secrets and keys are in it. */
  body: Record<string, unknown>
}

export interface Licence {
  id: string
  appId: string
  planId: string
  status: string
  statusReason: string | null
  externalRef: string
  legacyKey: string | null
  idempotencyKey: string | null
  maxActivations: number | null
  maxConcurrent: number | null
  expiresOn: number | null
}

export interface HistoryEntry {
  position: number
  licenceId: string
  at: number
  type: string
  from: string | null
  to: string
  actor: string
  cause: string | null
}

export interface Plan {
  id: string
  appId: string
  code: string
  name: string
  status: string
  activeLicences: number
}

/** A plan in the catalog, and licensing's copy of it. */
export interface PlanCopy {
  planId: string
  catalog: { status: string; version: number }
  licensing: { status: string; version: number } | null
}

export interface Envelope {
  id: string
  type: string
  sequence: number
  createdAt: number
  accountId: string
  appId: string
  object: Record<string, unknown>
  /** The exact bytes. */
  body: string
}

export interface Endpoint {
  id: string
  appId: string
  url: string
  status: string
  disabledReason: string | null
  createdAt: number
  /** Whether the storm chose this endpoint as dead: it never answers. */
  dead: boolean
}

export interface Delivery {
  id: string
  endpointId: string
  eventId: string
  status: string
}

/** A request that reached a receiver. */
export interface Arrival {
  url: string
  eventId: string
  /** The body as text, which must equal the body of the event in the feed. */
  body: string
  signature: string
  /** It was answered with 2xx. */
  accepted: boolean
}

export interface Session {
  id: string
  appId: string
  planId: string
  externalRef: string
  status: string
  licenceId: string | null
  amount: number
  feeMinor: number
}

export interface Sale {
  id: string
  appId: string
  saleId: string
  status: string
  licenceId: string | null
}

export interface Payment {
  id: string
  accountId: string
  sourceKey: string
  sessionId: string | null
  saleId: string | null
  invoiceRef: string | null
  licenceId: string | null
  amount: number
  feeMinor: number
  chargeRef: string | null
}

export interface Refund {
  id: string
  paymentId: string
  ref: string
  lane: string
  status: string
  amount: number
  processed: boolean
}

export interface Fee {
  id: string
  accountId: string
  paymentId: string
  kind: string
  amountMinor: number
}

/** Payments, refunds and disputes at the processor. */
export interface Processor {
  /** Sessions paid, by our session's id. */
  paid: { sessionId: string; amount: number }[]
  /** Invoices paid after a subscription's first. */
  renewals: { invoiceRef: string; amount: number }[]
  refunds: { ref: string; chargeRef: string; amount: number }[]
  chargebacks: { ref: string; chargeRef: string; amount: number }[]
  /** Sessions with an ended subscription. */
  ended: string[]
}

/** A row of licensing that links a payment to the licence that it provisioned. */
export interface Provision {
  appId: string
  paymentRef: string
  licenceId: string
}

export interface Activation {
  id: string
  licenceId: string
  fingerprint: string
  /** Whether its product has deactivated it, and it still keeps its place. */
  deactivated: boolean
}

/** The trial that a machine has had. */
export interface Trial {
  appId: string
  fingerprintHash: string
  licenceId: string
}

/** A stored counter, and the number of rows that it should equal. */
export interface Counter {
  name: string
  kept: number
  counted: number
}

export interface FeedRead {
  accountId: string
  events: { id: string; sequence: number }[]
}

/** A list read page by page during the storm. */
export interface Walk {
  appId: string
  from: number
  ids: string[]
}

export interface Outcome {
  accounts: { accountId: string; appId: string }[]
  sent: Sent[]
  feedReads: FeedRead[]
  walks: Walk[]
  licences: Licence[]
  history: HistoryEntry[]
  plans: Plan[]
  planCopies: PlanCopy[]
  definitions: { id: string; appId: string; key: string }[]
  activations: Activation[]
  /** How many leases of a floating licence have not ended. */
  leases: { licenceId: string; running: number }[]
  trials: Trial[]
  apiKeys: { id: string; accountId: string; name: string; revoked: boolean; accepted: boolean | null }[]
  capMinor: { accountId: string; capMinor: number | null; reached: number }[]
  events: Envelope[]
  endpoints: Endpoint[]
  deliveries: Delivery[]
  arrivals: Arrival[]
  sessions: Session[]
  sales: Sale[]
  payments: Payment[]
  refunds: Refund[]
  fees: Fee[]
  provisions: Provision[]
  revocations: { appId: string; version: number; licenceId: string }[]
  processor: Processor
  counters: Counter[]
  /** Numbers that should be zero: events in outboxes, dead letters, unhandled events of the processor. */
  leftovers: { name: string; count: number }[]
  /** How far each consumer is behind its stream. */
  lags: { consumer: string; behind: number }[]
  /** Milliseconds until the whole stack was ready for the first time. */
  startMs: number
  /** Milliseconds from the end of the faults to /readyz; null if it did not become ready. */
  ready: { process: string; afterMs: number | null }[]
  /** Processes that ended although no fault ended them. */
  crashes: { process: string; at: number }[]
}
