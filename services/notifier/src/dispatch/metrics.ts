import { Counter, Gauge, Histogram } from 'prom-client'

export const attemptsMade = new Counter({
  name: 'webhook_attempts_total',
  help: 'Attempts by outcome: delivered, status, timeout, connect, tls, dns, blocked, reset, protocol',
  labelNames: ['class', 'attempt'],
})

export const attemptSeconds = new Histogram({
  name: 'webhook_attempt_seconds',
  help: 'Time of an attempt, from name resolution to response',
  buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 6],
})

export const firstAttemptDelay = new Histogram({
  name: 'webhook_first_attempt_delay_seconds',
  help: 'Time from the recording of an event to the start of a first attempt',
  buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300],
})

export const flushSize = new Histogram({
  name: 'webhook_flush_rows',
  help: 'Attempts recorded in one statement',
  buckets: [1, 2, 5, 10, 20, 50, 100, 200],
})

export const duplicatesSent = new Counter({
  name: 'webhook_duplicate_attempts_total',
  help: 'Attempts that were recorded after another process had made an attempt of the same delivery',
})

export const endpointsDisabled = new Counter({
  name: 'webhook_endpoints_disabled_total',
  help: 'Endpoints disabled, by reason',
  labelNames: ['reason'],
})

export const slotsBusy = new Gauge({
  name: 'webhook_slots_busy',
  help: 'Deliveries in flight by attempt (first, later) and by responsiveness of their endpoint (proven, unknown, slow)',
  labelNames: ['of'],
})

export const queuedDeliveries = new Gauge({
  name: 'webhook_queued',
  help: 'Deliveries that this process has claimed and not started',
})

export const unreadableSecrets = new Gauge({
  name: 'webhook_unreadable_secrets',
  help: 'Endpoints to which nothing is sent, because this process cannot decrypt their secrets; if it is over 0: act',
})

export const oldestDueSeconds = new Gauge({
  name: 'webhook_oldest_due_seconds',
  help: 'How long the oldest due delivery has waited, by attempt: first, or later (retries and replays)',
  labelNames: ['attempt'],
})

export const expiredClaims = new Counter({
  name: 'webhook_expired_leases_total',
  help: 'Deliveries whose lease ended before their attempt was recorded',
})
