import { apiClient } from './api-client.ts'
import { startHttpsReceiver } from './https-receiver.ts'
import { runAdmin } from './run-admin.ts'
import { refuseUndeclaredCodes, startStack } from './stack.ts'
import type { Stack } from './stack-shape.ts'

// Vitest loads this module once for all test files of a worker.
let shared: Promise<Stack> | undefined

/**
 * A stack that the test files of a worker share. Each caller gets its own account. The stack has two replicas of licensing and
 * of the gateway, a simulated Stripe, frequent sweeps, no webhook retry within a test, hours of overlap that last a second, fees of 2.5 % plus 5 minor units, and
 * limits that no test reaches. It trusts every receiver of `startHttpsReceiver`. A test that stops a process, reads a database or
 * moves the simulator's clock must start its own stack.
 *
 * @example
 * beforeAll(async () => {
 *   stack = await sharedStack()
 * })
 * afterAll(() => stack[Symbol.asyncDispose]())
 */
export async function sharedStack(): Promise<Stack> {
  // The containers of a compose stack do not end with this process, so each file stops its own.
  if (process.env['TEST_COMPOSE']) return ownStack()
  const stack = await (shared ??= ownStack())
  const made = await runAdmin(stack, 'create-account', '--name', 'Demo')
  if (made.code !== 0) throw new Error(made.stderr)
  const { account_id, app_id, key } = JSON.parse(made.stdout) as Record<
    'account_id' | 'app_id' | 'key',
    string
  >
  return {
    ...stack,
    accountId: account_id,
    appId: app_id,
    apiKey: key,
    api: apiClient(stack.gatewayUrl, key),
    [Symbol.asyncDispose]: () => refuseUndeclaredCodes(stack.processes.gateway),
  }
}

/** A stack like the shared one, for one test file. */
export async function ownStack(): Promise<Stack> {
  const receiver = await startHttpsReceiver()
  return startStack({
    receiver,
    simulator: true,
    replicas: { licensing: 2, gateway: 2 },
    environment: {
      SWEEP_INTERVAL_SECONDS: '1',
      WEBHOOK_BACKOFF_SECONDS: '600',
      WEBHOOK_OVERLAP_HOUR_SECONDS: '1',
      FEE_BPS: '250',
      FEE_FIXED_MINOR: '5',
      RATE_LIMIT_PER_MINUTE: '100000',
      PRODUCT_RATE_PER_MINUTE: '100000',
      PRODUCT_TRIALS_PER_DAY: '100000',
    },
  })
}
