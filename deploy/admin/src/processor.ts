import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { BillingOperationsService } from '@licensing/proto/billing-operations'
import type { ProcessorEvent } from '@licensing/proto/billing-operations'
import { UsageError } from './command.ts'
import type { Command } from './command.ts'

const actions = ['list', 'retry', 'discard']

export const processorEvents: Command = {
  synopsis: 'list | retry EVENT_ID | discard EVENT_ID',
  summary:
    'lists payment processor events that are dead-lettered or failing, retries one, or discards it permanently',
  options: {},
  positionals: ['action', 'EVENT_ID?'],
  async run({ callsOf }, given) {
    const { action } = given
    const eventId = given['EVENT_ID?']
    if (!actions.includes(action!)) throw new UsageError(`unknown action of processor-events: ${action}`)
    if (action === 'list') {
      if (eventId !== undefined) throw new UsageError(`unexpected argument ${eventId}`)
      const { events } = await callsOf('billing', BillingOperationsService).listProcessorEvents({})
      return events.map(describedEvent)
    }
    if (eventId === undefined) throw new UsageError('missing: EVENT_ID')
    if (action === 'retry')
      await callsOf('billing', BillingOperationsService).retryProcessorEvent({ eventId })
    else await callsOf('billing', BillingOperationsService).discardProcessorEvent({ eventId })
    return [{ event_id: eventId, [action === 'retry' ? 'retried' : 'discarded']: true }]
  },
}

function describedEvent({
  eventId,
  merchant,
  type,
  receivedAt,
  attempts,
  deadLettered,
  reason,
}: ProcessorEvent): object {
  return {
    event_id: eventId,
    merchant,
    type,
    received_at: receivedAt ? timestampDate(receivedAt).toISOString() : null,
    attempts,
    dead_lettered: deadLettered,
    reason: reason ?? null,
  }
}

export const resendEffects: Command = {
  synopsis: '--since TIME [--account ACCOUNT_ID]',
  summary:
    'sends payments, refunds and renewals that were applied to licences since that time again, after licensing was restored from a backup; what licensing knows is not applied twice',
  options: { since: { required: true }, account: { required: false } },
  async run({ callsOf }, { since, account }) {
    const at = new Date(since!)
    if (!/^\d{4}-\d{2}-\d{2}T/.test(since!) || Number.isNaN(at.getTime())) {
      throw new UsageError(`--since must be a time such as 2026-11-28T09:00:00Z, not ${since}`)
    }
    const request = { since: timestampFromDate(at), ...(account !== undefined && { accountId: account }) }
    const { effects } = await callsOf('billing', BillingOperationsService).resendEffects(request)
    return [{ since: at.toISOString(), account_id: account ?? null, effects: Number(effects) }]
  },
}

const path = '/v1/processors/stripe/events'

export const processorWebhook: Command = {
  synopsis: '[--create] [--url URL]',
  summary:
    'prints the API version and event types that the webhook endpoint at the payment processor needs; --create creates the endpoint and prints its secret once',
  options: { url: { required: false } },
  flags: ['create'],
  async run({ callsOf, publicUrl }, { create, url }) {
    const calls = callsOf('billing', BillingOperationsService)
    const { apiVersion, eventTypes } = await calls.describeProcessorWebhook({})
    const needs = { api_version: apiVersion, connect: true, events: eventTypes }
    const target = url ?? (publicUrl === undefined ? undefined : new URL(path, publicUrl).href)
    if (create === undefined) return [{ url: target ?? null, ...needs }]
    if (target === undefined) throw new UsageError('use --url, or set PUBLIC_URL')
    if (!URL.canParse(target)) throw new UsageError(`--url must be an address, not ${target}`)
    const { id, secret } = await calls.createProcessorWebhook({ url: target })
    return [{ id, secret, url: target, ...needs }]
  },
}
