import { createHmac } from 'node:crypto'
import type { Answered, Asked, HistoryEntry, Licence, Outcome, Sent } from '../../outcome.ts'

export const accountId = 'acct_1'
export const appId = 'app_1'
export const secret = 'whsec_1'
export const url = 'https://localhost:1/steady/of-1'

/** Builds the outcome of a storm without a violation, write by write. */
export class Maker {
  readonly outcome: Outcome = {
    accounts: [{ accountId, appId }],
    sent: [],
    feedReads: [],
    walks: [],
    licences: [],
    history: [],
    plans: [],
    planCopies: [],
    definitions: [],
    activations: [],
    leases: [],
    trials: [],
    apiKeys: [],
    capMinor: [],
    events: [],
    endpoints: [],
    deliveries: [],
    arrivals: [],
    sessions: [],
    sales: [],
    payments: [],
    refunds: [],
    fees: [],
    provisions: [],
    revocations: [],
    processor: { paid: [], renewals: [], refunds: [], chargebacks: [], ended: [] },
    counters: [],
    leftovers: [{ name: 'outbox of licensing', count: 0 }],
    lags: [{ consumer: 'notifier of LICENSING_EVENTS 3', behind: 0 }],
    startMs: 5_000,
    ready: [{ process: 'licensing-1', afterMs: 900 }],
    crashes: [],
  }
  /** The number of paid checkouts so far. */
  paid = 0
  /** The present time. A request takes 100 ms, and its effect happens after 50 ms. */
  #now = 1_000_000

  send(
    asked: Asked,
    body: Record<string, unknown> = {},
    answered: Answered = 'acknowledged',
    status = 200,
  ): Sent {
    this.#now += 100
    const code = answered === 'refused' ? 'conflict' : null
    const sent: Sent = { asked, from: this.#now - 100, to: this.#now, answered, status, code, body }
    this.outcome.sent.push(sent)
    return sent
  }

  get halfway(): number {
    return this.#now - 50
  }

  licence(fields: Partial<Licence>): Licence {
    const number = this.outcome.licences.length + 1
    const licence: Licence = {
      id: `lic_${number}`,
      appId,
      planId: 'pln_1',
      status: 'active',
      statusReason: null,
      externalRef: `customer-${number}`,
      legacyKey: null,
      idempotencyKey: null,
      maxActivations: null,
      maxConcurrent: null,
      expiresOn: null,
      ...fields,
    }
    this.outcome.licences.push(licence)
    return licence
  }

  /** Changes a licence: its status, its history, and its event if it has one. */
  change(licence: Licence, type: string, to: string, by: Partial<HistoryEntry> = {}): void {
    const before = this.outcome.history.findLast(({ licenceId }) => licenceId === licence.id)
    this.outcome.history.push({
      position: this.outcome.history.length + 1,
      licenceId: licence.id,
      at: this.halfway,
      type,
      from: before?.to ?? null,
      to,
      actor: 'key_1',
      cause: null,
      ...by,
    })
    licence.status = to
    if (type === 'revoked') {
      const version = this.outcome.revocations.length + 1
      this.outcome.revocations.push({ appId, version, licenceId: licence.id })
    }
    if (['issued', 'imported', 'renewed'].includes(type)) return
    this.event(`licence.${type}`, { licence_id: licence.id, status: to })
  }

  /** Records an event, and delivers it if the endpoint exists. */
  event(type: string, object: Record<string, unknown>): string {
    const sequence = this.outcome.events.length + 1
    const id = `evt_${sequence}`
    const body = JSON.stringify({ id, type, sequence, data: { object } })
    this.outcome.events.push({ id, type, sequence, createdAt: this.halfway, accountId, appId, object, body })
    this.outcome.deliveries.push({
      id: `dlv_${sequence}`,
      endpointId: 'whe_1',
      eventId: id,
      status: 'delivered',
    })
    const mac = createHmac('sha256', secret).update(`1.${body}`).digest('hex')
    this.outcome.arrivals.push({ url, eventId: id, body, signature: `t=1,v1=${mac}`, accepted: true })
    return id
  }

  verb(licence: Licence, verb: 'suspend' | 'reactivate' | 'revoke', type: string, to: string): void {
    this.send({ do: 'verb', verb, licenceId: licence.id }, { status: to })
    this.change(licence, type, to)
  }
}
