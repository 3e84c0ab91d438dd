import { join } from 'node:path'
import { startNode, untilReady } from '@licensing/local-servers/node-process'
import { freePort } from '@licensing/local-servers/ports'
import { SIMULATOR_MAIN, simulatorEnvironment, simulatorSettings } from '@licensing/local-servers/stripe'
import { hostAddress } from './docker.ts'

/** The Stripe simulator as a process. */
export interface StripeSimulator extends AsyncDisposable {
  readonly url: string
  readonly pid: number
  /** The environment with which billing uses it. */
  readonly environment: Record<string, string>
}

/** Starts the simulator. It sends signed events to the gateway at `gatewayUrl`. */
export async function startSimulator(gatewayUrl: string, folder: string): Promise<StripeSimulator> {
  const webhookSecret = 'whsec_of_the_test'
  const address = `${await hostAddress()}:${await freePort()}`
  const env = { PATH: process.env['PATH'] ?? '', ...simulatorEnvironment(address, gatewayUrl, webhookSecret) }
  const node = await startNode('stripe-simulator', SIMULATOR_MAIN, env, join(folder, 'stripe-simulator.log'))
  await untilReady(node, `http://${address}/healthz`, 30_000)
  return {
    url: `http://${address}`,
    pid: node.server.pid,
    environment: simulatorSettings(address, webhookSecret),
    [Symbol.asyncDispose]: () => node.server.stop(),
  }
}
