import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { alertOnce, alertVendors } from '../alerts/alert-vendor.ts'
import { accountsOf, markDisconnected } from '../connections/connection-queries.ts'
import type { BillingDependencies } from '../dependencies.ts'
import { NotUnderstood } from '../processors/processor.ts'
import type { NewFact } from './fact-queries.ts'
import {
  claimEvent,
  claimEvents,
  finishEvents,
  listWaitingMerchants,
  parkEvents,
  postponeEvent,
} from './inbox-queries.ts'
import type { InboxEvent } from './inbox-queries.ts'
import { recordFacts } from './record-facts.ts'
import { ShareOut } from './share-out.ts'
import { pauseAfter, timing } from './timing.ts'

const perRound = 500
// An event that cannot be stored, however often it is tried, needs a person.
const parkAfter = 40

/** From the inbox to facts, a batch in one transaction. @returns a round; it answers how many events it took */
export function recordRounds(deps: BillingDependencies): () => Promise<number> {
  const share = new ShareOut(perRound, 100)
  return async () => {
    const { owners, each } = await share.next((after, most) => listWaitingMerchants(deps.sql, after, most))
    if (owners.length === 0) return 0
    let taken: InboxEvent[] = []
    try {
      await deps.outbox.transaction(async (tx) => {
        taken = await claimEvents(tx, owners, each)
        await recordBatch(deps, tx, taken)
      })
    } catch (error) {
      if (isDatabaseUnavailable(error) || taken.length === 0) throw error
      deps.log.warn({ err: error, events: taken.length }, 'batch of events not recorded: one by one')
      for (const event of taken) await recordAlone(deps, event)
    }
    return taken.length
  }
}

async function recordAlone(deps: BillingDependencies, { position }: InboxEvent): Promise<void> {
  let taken: InboxEvent[] = []
  try {
    await deps.outbox.transaction(async (tx) => {
      taken = await claimEvent(tx, position)
      await recordBatch(deps, tx, taken)
    })
  } catch (error) {
    const [event] = taken
    if (isDatabaseUnavailable(error) || !event) throw error
    const failures = event.attempts + 1
    const parked = failures >= parkAfter
    const about = { err: error, event: event.event_id, type: event.type, attempts: failures }
    if (parked) deps.log.error(about, 'processor event keeps failing: parked')
    else deps.log.warn(about, 'processor event not recorded yet')
    await postponeEvent(deps.sql, position, {
      error: String(error).slice(0, 500),
      parked,
      delayMs: pauseAfter(timing.retryEvent, failures),
    })
    if (parked) await deps.outbox.transaction((tx) => alertParked(tx, [event]))
  }
}

/** Each event is read by itself; one that is not understood is parked, and stops none of the others. */
async function recordBatch(deps: BillingDependencies, tx: Transaction, events: InboxEvent[]): Promise<void> {
  if (events.length === 0) return
  const facts: NewFact[] = []
  const parked: { event: InboxEvent; position: bigint; reason: string }[] = []
  const disconnections: { merchant: string; at: Date }[] = []
  for (const event of events) {
    try {
      const reading = deps.processor.read(event.body)
      if (!reading) continue
      if ('fact' in reading) {
        facts.push({ merchant: event.merchant, sourceKey: event.event_id, fact: reading.fact })
      } else disconnections.push({ merchant: event.merchant, at: reading.disconnectedAt })
    } catch (error) {
      if (!(error instanceof NotUnderstood)) throw error
      deps.log.error(
        { event: event.event_id, type: event.type, reason: error.message },
        'event not understood',
      )
      parked.push({ event, position: event.position, reason: error.message.slice(0, 500) })
    }
  }
  await recordFacts(tx, facts)
  for (const { merchant, at } of disconnections) await disconnect(tx, merchant, at)
  const aside = new Set(parked.map((each) => each.position))
  await finishEvents(
    tx,
    events.map((event) => event.position).filter((position) => !aside.has(position)),
  )
  if (parked.length === 0) return
  await parkEvents(tx, parked)
  await alertParked(
    tx,
    parked.map((each) => each.event),
  )
}

async function alertParked(
  tx: Transaction,
  events: Pick<InboxEvent, 'event_id' | 'type' | 'merchant'>[],
): Promise<void> {
  const first = new Map(events.toReversed().map((event) => [event.merchant, event]))
  for (const [merchant, { event_id: eventId, type }] of first) {
    await alertOnce(tx, await accountsOf(tx, merchant), {
      kind: 'processor_event_parked',
      subject: 'An event of the payment processor cannot be handled',
      text: `Event ${eventId} (${type}) of ${merchant} is not understood or cannot be stored. It is kept: licensing-admin processor-events lists, retries and discards such events. Until then what they report has no effect on licences and fees.`,
    })
  }
}

async function disconnect(tx: Transaction, merchant: string, at: Date): Promise<void> {
  await alertVendors(tx, await markDisconnected(tx, merchant, at), {
    kind: 'processor_disconnected',
    subject: 'The payment processor was disconnected',
    text: `The connected account ${merchant} withdrew the platform's access. No checkout can be opened until it is connected again; licences stay as they are.`,
  })
}
