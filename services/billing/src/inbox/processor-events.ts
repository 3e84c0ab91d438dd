import { audit } from '@licensing/changes/audit'
import { longLockTimeout } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { isValueRefused } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import { pauseAfter } from '@licensing/process/retry'
import { alertOnce, alertVendors } from '../alerts/alert-vendor.ts'
import { connectionChanges } from '../connected-accounts/connect-account.ts'
import { accountsOf, markDisconnected } from '../connected-accounts/connection-queries.ts'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import type { NewFact } from '../facts/fact-queries.ts'
import { recordFacts } from '../facts/record-facts.ts'
import { NotUnderstood } from '../processor/processor.ts'
import { queues } from '../queues/queue-queries.ts'
import type { InboxEvent } from '../queues/queue-queries.ts'
import { createBatchRound } from '../queues/queue-rounds.ts'
import { timing } from '../timing.ts'
import { deadLetterEvents, finishEvents, insertDelivery, postponeEvent } from './inbox-queries.ts'

/**
 * Verifies and stores an event. Everything else happens later, from the inbox. An event of a type that is not used is
 * acknowledged too, because the processor would repeat it for days.
 */
export const receiveProcessorEvent: Handler<'receiveProcessorEvent'> = async (
  { sql, processor, wake, log },
  request,
) => {
  if (request.processor !== processor.name) {
    throw new ServiceError('not_found', `there is no processor ${request.processor.slice(0, 64)}`)
  }
  const event = processor.verify(request.body, request.signature)
  const { eventId, type, merchant } = event
  const about = { event: eventId, type, merchant }
  if (!processor.understands(type)) {
    log.debug(about, 'event of a type that is not used')
  } else if (event.live !== processor.live) {
    log.warn(about, 'event of the other mode, test or live, ignored')
  } else if (merchant === undefined || (await accountsOf(sql, merchant)).length === 0) {
    log.warn(about, 'event of a merchant that is not connected, ignored')
  } else if (
    await insertDelivery(sql, { processor: processor.name, eventId, merchant, type, body: request.body })
  ) {
    wake('record')
  }
  return {}
}

const perRound = 500
// An event that could not be stored so many times needs an operator.
const deadLetterAfter = 40

/** @returns a round, which records events of the inbox and returns how many it took */
export function createRecordRound(deps: BillingDependencies): () => Promise<number> {
  return createBatchRound(
    deps,
    queues.record,
    perRound,
    (tx, events) => recordEvents(deps, tx, events),
    (event, error) => recordingFailed(deps, event, error),
  )
}

async function recordingFailed(deps: BillingDependencies, event: InboxEvent, error: unknown): Promise<void> {
  const failures = event.attempts + 1
  const about = { err: error, event: event.event_id, type: event.type, attempts: failures }
  const reason = String(error).slice(0, 500)
  if (failures < deadLetterAfter && !isValueRefused(error)) {
    deps.log.warn(about, 'processor event not recorded yet')
    return postponeEvent(deps.sql, event.position, reason, pauseAfter(timing.retryEvent, failures))
  }
  deps.log.error(about, 'processor event cannot be recorded: dead-lettered')
  await deps.change((tx) => deadLetter(tx, [{ event, reason }]), longLockTimeout)
}

/** Reads each event by itself. An event that is not understood is dead-lettered and does not stop other events. */
async function recordEvents(deps: BillingDependencies, tx: Transaction, events: InboxEvent[]): Promise<void> {
  const facts: NewFact[] = []
  const disconnections: { merchant: string; at: Date }[] = []
  const notUnderstood: { event: InboxEvent; reason: string }[] = []
  for (const event of events) {
    const { merchant, event_id: sourceKey } = event
    try {
      const reading = deps.processor.read(event.body)
      if (!reading) continue
      if ('fact' in reading) facts.push({ merchant, sourceKey, fact: reading.fact })
      else disconnections.push({ merchant, at: reading.disconnectedAt })
    } catch (error) {
      if (!(error instanceof NotUnderstood)) throw error
      const reason = error.message.slice(0, 500)
      deps.log.error({ event: sourceKey, type: event.type, reason }, 'event not understood')
      notUnderstood.push({ event, reason })
    }
  }
  await recordFacts(tx, facts)
  for (const { merchant, at } of disconnections) await disconnect(deps, tx, merchant, at)
  await deadLetter(tx, notUnderstood)
  const positions = events.map((event) => event.position)
  await finishEvents(tx, positions)
}

async function deadLetter(
  tx: Transaction,
  notUnderstood: { event: InboxEvent; reason: string }[],
): Promise<void> {
  if (notUnderstood.length === 0) return
  const deadLettered = notUnderstood.map(({ event, reason }) => ({
    position: event.position,
    last_error: reason,
  }))
  await deadLetterEvents(tx, deadLettered)
  const first = new Map(notUnderstood.toReversed().map(({ event }) => [event.merchant, event]))
  for (const [merchant, { event_id: eventId, type }] of first) {
    await alertOnce(tx, await accountsOf(tx, merchant), {
      kind: 'processor_event_parked',
      subject: 'An event of the payment processor cannot be handled',
      text: `Event ${eventId} (${type}) of ${merchant} is not understood or cannot be stored. It is kept: licensing-admin processor-events lists, retries and discards such events. Until then their reports have no effect on licences and fees.`,
    })
  }
}

async function disconnect(
  { processor }: BillingDependencies,
  tx: Transaction,
  merchant: string,
  at: Date,
): Promise<void> {
  const ended = await markDisconnected(tx, merchant, at)
  const entries = ended.map((connection) => ({
    accountId: connection.account_id,
    resourceId: connection.account_id,
    changes: connectionChanges(processor, { ...connection, disconnected_at: null }, undefined),
    by: { actor: 'processor', operation: 'releaseProcessor' },
  }))
  await audit(tx, ...entries)
  const accountIds = ended.map((connection) => connection.account_id)
  await alertVendors(tx, accountIds, {
    kind: 'processor_disconnected',
    subject: 'The payment processor was disconnected',
    text: `The connected account ${merchant} withdrew the platform's access. No checkout can be opened until it is connected again; licences stay as they are.`,
  })
}
