import type { Nats } from '../connection.ts'

/** NATS that never answers, as during an outage: events stay in the outbox, and none is consumed. */
export function noNats(): Nats {
  return {
    get connection(): never {
      throw new Error('nats is not connected yet')
    },
    connected: () => false,
    onReconnect: () => () => {},
    subscribe: () => () => {},
    whenConnected: (signal) =>
      new Promise((resolve) => {
        if (signal.aborted) resolve()
        else signal.addEventListener('abort', () => resolve(), { once: true })
      }),
    close: () => Promise.resolve(),
  }
}
