import { timestampDate } from '@bufbuild/protobuf/wkt'
import { messageOf } from '@licensing/grpc/fields'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { implement } from '@licensing/grpc/server'
import { BillingOperationsService, ProcessorEventSchema } from '@licensing/proto/billing-operations'
import type { BillingDependencies } from './dependencies.ts'
import { insertResend } from './effects/resend-queries.ts'
import { discardEvent, listUnhandledEvents, retryEvent } from './inbox/inbox-queries.ts'

const maxListed = 1_000

/** The commands of operators for events and the webhook endpoint. */
export function billingOperationsService({ sql, change, processor, wake }: BillingDependencies) {
  return implement(BillingOperationsService, {
    async listProcessorEvents() {
      const rows = await listUnhandledEvents(sql, maxListed)
      return {
        events: rows.map((row) => messageOf(ProcessorEventSchema, row)),
      }
    },
    async retryProcessorEvent({ eventId }) {
      if (!(await retryEvent(sql, eventId))) throw noSuchEvent(eventId)
      wake('record')
      return {}
    },
    async discardProcessorEvent({ eventId }) {
      if (!(await discardEvent(sql, eventId))) throw noSuchEvent(eventId)
      return {}
    },
    async resendEffects({ since, accountId }) {
      if (!since) throw invalid('/since', 'is missing')
      return { effects: await change((tx) => insertResend(tx, timestampDate(since), accountId)) }
    },
    async describeProcessorWebhook() {
      return processor.webhookNeeds()
    },
    async createProcessorWebhook({ url }) {
      return processor.createWebhook(url)
    },
  })
}

function noSuchEvent(eventId: string): ServiceError {
  return new ServiceError('not_found', `there is no event ${eventId.slice(0, 64)} that is not handled`)
}
