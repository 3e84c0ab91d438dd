import { randomBytes } from 'node:crypto'
import { connectLicensing } from './connect-licensing.ts'
import type { Licensing } from './connect-licensing.ts'
import { runContainer } from './container.ts'

export { connectLicensing } from './connect-licensing.ts'
export type { Address, Licensing } from './connect-licensing.ts'
export type { EventInbox, ReceivedEvent } from './event-inbox.ts'
export type { Simulator } from './simulator.ts'

/** A licensing service of your own, for a test suite. */
export interface RunningLicensing extends Licensing, AsyncDisposable {
  stop(): Promise<void>
}

export interface LicensingOptions {
  /** Default: `licensing/dev:latest`. */
  readonly image?: string
  /** Environment variables of the service. They override the short delays that tests use. */
  readonly environment?: Readonly<Record<string, string>>
  /** How long the container may take to be ready; default: 120 s. */
  readonly timeoutMs?: number
}

/** Short delays, so that tests do not wait for retries and sweeps. */
const shortWaits = {
  WEBHOOK_BACKOFF_SECONDS: Array.from({ length: 11 }, () => '1').join(','),
  SWEEP_INTERVAL_SECONDS: '1',
  RECONCILE_INTERVAL_SECONDS: '5',
}

/**
 * Starts a whole licensing service in one container, with an account, an application and a simulated payment
 * processor. Needs `docker`. The container stops when this process ends.
 *
 * @example
 * const licensing = await startLicensing()
 * after(() => licensing.stop())
 * const { url, apiKey, appId, simulator, events } = licensing
 */
export async function startLicensing(options: LicensingOptions = {}): Promise<RunningLicensing> {
  const { image = 'licensing/dev:latest', timeoutMs = 120_000 } = options
  const apiKey = `lsk_${randomBytes(32).toString('hex')}`
  const environment = { ...shortWaits, ...options.environment, BOOTSTRAP_API_KEY: apiKey }
  const { url, stop } = await runContainer(image, environment, timeoutMs)
  try {
    const licensing = await connectLicensing({ url, apiKey, simulatorUrl: url })
    return { ...licensing, stop, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
  }
}
