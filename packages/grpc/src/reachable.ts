import { connectivityState } from '@grpc/grpc-js'
import type { Client } from '@grpc/grpc-js'

// A server that is restarted, or whose twin is, is connected to again within this time: worth the wait.
const patienceMs = 2_000
// For one that has long been unreachable, only the next attempt to connect is waited for: it may be back already.
const longestBackoffMs = 500
const nextAttemptMs = longestBackoffMs * 1.4

/** How soon a channel tries to connect again: fast enough that callers can wait for it. */
export const reconnectOptions = {
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': longestBackoffMs,
}

/**
 * Reports whether a call can be sent. A server that became unreachable only just now is waited for; for one that stays
 * unreachable, calls fail after the next attempt to connect. Nothing is sent meanwhile: whatever the call does, it is safe to wait.
 *
 * @returns a function of the call's deadline (milliseconds since 1970): undefined when it can be sent at once, else a
 *   promise of whether it can
 */
export function reachability(client: Client): (deadlineMs: number) => Promise<boolean> | undefined {
  const channel = client.getChannel()
  let unreachableSinceMs: number | undefined
  return (deadlineMs) => {
    const state = channel.getConnectivityState(true)
    if (state === connectivityState.READY) return undefined
    const nowMs = Date.now()
    if (state === connectivityState.TRANSIENT_FAILURE && unreachableSinceMs === undefined) {
      unreachableSinceMs = nowMs
      channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => (unreachableSinceMs = undefined))
    }
    const untilMs = Math.min(
      deadlineMs,
      Math.max((unreachableSinceMs ?? nowMs) + patienceMs, nowMs + nextAttemptMs),
    )
    return new Promise((resolve) => {
      client.waitForReady(untilMs, (error) => resolve(error === undefined))
    })
  }
}
