import { platformApplication } from '@licensing/stripe-simulator/ids'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** Absolute path of the file that starts the Stripe simulator. */
export const SIMULATOR_MAIN = require.resolve('@licensing/stripe-simulator/main')

/**
 * The simulator's environment.
 *
 * @param address host:port to listen on
 * @param gatewayUrl the gateway that receives its signed events
 */
export function simulatorEnvironment(
  address: string,
  gatewayUrl: string,
  webhookSecret: string,
): Record<string, string> {
  return {
    HTTP_ADDRESS: address,
    WEBHOOK_TARGET_URL: `${gatewayUrl}/v1/processors/stripe/events`,
    STRIPE_WEBHOOK_SECRET: webhookSecret,
  }
}

/** Settings with which billing uses the simulator instead of Stripe. */
export function simulatorSettings(address: string, webhookSecret: string): Record<string, string> {
  return {
    STRIPE_API_BASE: `http://${address}`,
    // Not a real key, and recognizable as such wherever it appears.
    STRIPE_SECRET_KEY: 'sk_test_simulated',
    STRIPE_CLIENT_ID: platformApplication,
    STRIPE_WEBHOOK_SECRET: webhookSecret,
  }
}
