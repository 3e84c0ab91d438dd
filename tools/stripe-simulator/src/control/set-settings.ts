import type { Params } from '../http/params.ts'
import type { World } from '../world/world.ts'

/** How Stripe treats an account, or every account. */
export function setSettings({ settings }: World, params: Params): object {
  params.only('account', 'capture', 'capture_seconds', 'api_version', 'livemode', 'tax_percent')
  const capture = params.oneOf('capture', ['immediate', 'asynchronous'])
  const captureSeconds = params.integer('capture_seconds')
  const apiVersion = params.string('api_version')
  const livemode = params.boolean('livemode')
  const taxPercent = params.integer('tax_percent')
  const account = params.string('account')
  settings.choose(account, {
    ...(capture !== undefined && { capture }),
    ...(captureSeconds !== undefined && { captureSeconds }),
    ...(apiVersion !== undefined && { apiVersion }),
    ...(livemode !== undefined && { livemode }),
    ...(taxPercent !== undefined && { taxPercent }),
  })
  const { capture: how, captureSeconds: delay, ...now } = settings.of(account ?? null)
  return {
    capture: how,
    capture_seconds: delay,
    api_version: now.apiVersion,
    livemode: now.livemode,
    tax_percent: now.taxPercent,
  }
}
