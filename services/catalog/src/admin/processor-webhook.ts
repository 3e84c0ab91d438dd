import type { Command } from './command.ts'
import { UsageError } from './command.ts'

const path = '/v1/processors/stripe/events'

export const processorWebhook: Command = {
  synopsis: '[--create] [--url URL]',
  summary:
    'prints the API version and event types that the webhook endpoint at the payment processor needs; --create creates the endpoint and prints its secret once',
  options: { url: { required: false } },
  flags: ['create'],
  async run({ billing, publicUrl }, { create, url }) {
    const calls = billing()
    const { apiVersion, eventTypes } = await calls.describeProcessorWebhook({})
    const needs = { api_version: apiVersion, connect: true, events: eventTypes }
    const target = url ?? (publicUrl === undefined ? undefined : new URL(path, publicUrl).href)
    if (create === undefined) return [JSON.stringify({ url: target ?? null, ...needs })]
    if (target === undefined) throw new UsageError('use --url, or set PUBLIC_URL')
    if (!URL.canParse(target)) throw new UsageError(`--url must be an address, not ${target}`)
    const { id, secret } = await calls.createProcessorWebhook({ url: target })
    return [JSON.stringify({ id, secret, url: target, ...needs })]
  },
}
