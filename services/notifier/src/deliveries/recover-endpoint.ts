import { timestampDate } from '@bufbuild/protobuf/wkt'
import { audit } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { isLockTimeout } from '@licensing/database/problems'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { RecoverEndpointResponseSchema } from '@licensing/proto/notifier'
import type { RecoverEndpointRequest } from '@licensing/proto/notifier'
import { webhookEventTypes } from '@licensing/proto/webhook-events'
import { lowerNextDueAt } from './delivery-queries.ts'
import type { NotifierDependencies, Handler } from '../dependencies.ts'
import { checkSendable, endpointNotFound } from '../endpoints/endpoint.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import { lockEndpoint, findEndpointRow } from '../endpoints/endpoint-queries.ts'
import { findMissed, insertMissed, lockRecovery } from './recover-queries.ts'
import type { Recovery } from './recover-queries.ts'

const maxRecovered = 100_000
const dayMs = 86_400_000
const maxDelayDays = 35
// The clock of this service and the clocks of services that make events may differ by this much.
const clockMarginMs = 5 * 60_000
const maxWaitMs = 25_000

/**
 * Creates deliveries of the events that the endpoint missed, in one transaction: a repeated or concurrent call finds them
 * pending and creates none.
 */
export const recoverEndpoint: Handler<'recoverEndpoint'> = async (deps, request) => {
  const times = readTimes(request, deps.clock.now())
  const types = readTypes(request.types)
  const toAnswer = (deliveries: number) => ({ deliveries: BigInt(deliveries) })
  const work = async (tx: Transaction) => {
    await lockRecovery(tx, request.accountId)
    return recover(deps, tx, request, { ...times, types })
  }
  const answer = { schema: RecoverEndpointResponseSchema, toMessage: toAnswer }
  const deliveries = await deps.change(work, { answer, maxWaitMs }).catch((error: unknown) => {
    if (!isLockTimeout(error)) throw error
    throw new ServiceError(
      'unavailable',
      'another recovery of this account is still running: repeat the call',
    )
  })
  deps.dispatcher.wake()
  return toAnswer(deliveries)
}

function readTimes({ since, until }: RecoverEndpointRequest, now: Date): { since: Date; until: Date } {
  if (!since) throw invalid('/since', 'is required')
  const times = { since: timestampDate(since), until: until ? timestampDate(until) : now }
  if (times.until > times.since) return times
  throw until ? invalid('/until', 'must be after since') : invalid('/since', 'must be in the past')
}

function readTypes(types: string[]): readonly string[] {
  const unknown = types.findIndex((type) => !webhookEventTypes.includes(type))
  if (unknown >= 0) {
    throw invalid(`/types/${unknown}`, `must be one of ${webhookEventTypes.join(', ')}`)
  }
  return types.length > 0 ? types : webhookEventTypes
}

async function recover(
  { clock, keptSince }: NotifierDependencies,
  tx: Transaction,
  request: RecoverEndpointRequest,
  { since, until, types }: { since: Date; until: Date; types: readonly string[] },
): Promise<number> {
  const { accountId, applicationId, endpointId } = request
  const now = clock.now()
  const { subscribed_events: subscribed, plans } = sendable(request, await findEndpointRow(tx, request))
  const earliest = since.getTime() - clockMarginMs
  const recovery: Recovery = {
    accountId,
    applicationId,
    endpointId,
    types: types.filter((type) => subscribed?.includes(type) ?? true),
    plans,
    since,
    until,
    recordedFrom: new Date(Math.max(earliest, keptSince().getTime())),
    // An event may be recorded this long after it happened: NATS or the consumer may have been stopped.
    recordedBefore: new Date(Math.min(until.getTime(), now.getTime()) + maxDelayDays * dayMs + clockMarginMs),
  }
  const missed = await findMissed(tx, recovery, maxRecovered)
  if (missed.length > maxRecovered) {
    throw invalid('/since', `more than ${maxRecovered} events were missed: recover a shorter time first`)
  }
  const deliveries = await insertMissed(tx, recovery, missed, now)
  // The endpoint is locked last, so that a process that disables it does not wait for the whole recovery.
  sendable(request, await lockEndpoint(tx, request))
  if (deliveries > 0) {
    await lowerNextDueAt(tx, [endpointId], new Date(now.getTime() - deliveries / 1000 - 1))
    await audit(tx, { accountId, applicationId, resourceId: endpointId, changes: {} })
  }
  return deliveries
}

function sendable({ endpointId }: RecoverEndpointRequest, endpoint: EndpointRow | null): EndpointRow {
  if (!endpoint) throw endpointNotFound(endpointId)
  checkSendable(endpoint)
  return endpoint
}
