import { expect, test } from 'vitest'
import type { AttemptOutcome } from './endpoint-queue.ts'
import { Scheduler } from './scheduler.ts'
import type { ClaimedDelivery } from './claimed-delivery.ts'

interface Scenario {
  endpoints: number
  deadShare: number
  eventsPerSecond: number
  seconds: number
  slots: number
  /** When the dead endpoints stop answering. Before that they answer like the others. */
  deathAtMs?: number
}

const answerMs = 20
const timeoutMs = 5_000
const leaseMs = 12_000

/** Simulates the endpoints in steps of a millisecond. @returns how long deliveries to healthy endpoints waited for a slot */
function simulate({
  endpoints,
  deadShare,
  eventsPerSecond,
  seconds,
  slots,
  deathAtMs = 0,
}: Scenario): number[] {
  const scheduler = new Scheduler(slots)
  const createdAt = new Date()
  const isDead = (id: string) => Number(id) % 10 < deadShare * 10
  const arrivedAt = new Map<string, number>()
  const waits: number[] = []
  // Deliveries over the capacity wait here, by endpoint, as they would in the database.
  const overCapacity = new Map<string, string[]>()
  const ends = new Map<number, { claimed: ClaimedDelivery; ending: AttemptOutcome }[]>()
  const settingsOf = (id: string) => ({ id, accountId: id, url: '', secret: '', generation: 1n })
  const give = (endpointId: string, id: string, now: number) => {
    const delivery = {
      id,
      application_id: '',
      endpoint_id: endpointId,
      event_id: '',
      body: '',
      trace_parent: null,
      created_at: createdAt,
    }
    scheduler.add(settingsOf(endpointId), {
      delivery: { ...delivery, attempt_count: 0, scheduled_attempts: 0, is_replay: false },
      claimId: '',
      leaseEndsAt: now + leaseMs,
    })
  }
  const wait = (endpointId: string, id: string) =>
    overCapacity.set(endpointId, [...(overCapacity.get(endpointId) ?? []), id])

  let made = 0
  for (let now = 0; now < seconds * 1000; now += 1) {
    for (; made < (now * eventsPerSecond) / 1000; made += 1) {
      const endpointId = String((made * 7919) % endpoints)
      const id = String(made)
      arrivedAt.set(id, now)
      if (scheduler.capacity(settingsOf(endpointId)) > 0) give(endpointId, id, now)
      else wait(endpointId, id)
    }
    for (const { claimed, ending } of ends.get(now) ?? []) scheduler.ended(claimed, ending, now)
    ends.delete(now)
    if (now % 250 === 0) {
      for (const { delivery } of scheduler.tick(now)) wait(delivery.endpoint_id, delivery.id)
      for (const [endpointId, ids] of overCapacity) {
        for (const id of ids.splice(0, scheduler.capacity(settingsOf(endpointId)))) give(endpointId, id, now)
      }
    }
    for (let pick = scheduler.next(now); pick; pick = scheduler.next(now)) {
      const { delivery } = pick.claimed
      const hangs = isDead(delivery.endpoint_id) && now >= deathAtMs
      const endsAt = now + (hangs ? timeoutMs : answerMs)
      ends.set(endsAt, [
        ...(ends.get(endsAt) ?? []),
        { claimed: pick.claimed, ending: hangs ? 'timeout' : 'delivered' },
      ])
      if (!isDead(delivery.endpoint_id)) waits.push(now - arrivedAt.get(delivery.id)!)
    }
  }
  return waits.toSorted((a, b) => a - b)
}

const quantile = (sorted: number[], share: number) => sorted[Math.floor(sorted.length * share)]!

const scenario = { endpoints: 200, eventsPerSecond: 1_000, seconds: 60, slots: 512 }

test.each([0, 0.1, 0.3, 0.6])('healthy endpoints wait no longer when %d of all are dead', (deadShare) => {
  const waits = simulate({ ...scenario, deadShare })
  expect(waits.length).toBeGreaterThan(scenario.eventsPerSecond * scenario.seconds * (1 - deadShare) * 0.99)
  expect(quantile(waits, 0.5)).toBeLessThanOrEqual(1)
  expect(quantile(waits, 0.99)).toBeLessThanOrEqual(25)
})

test('when a third of all endpoints die at once, the others wait no longer', () => {
  const waits = simulate({ ...scenario, deadShare: 0.3, deathAtMs: 20_000 })
  expect(quantile(waits, 0.99)).toBeLessThanOrEqual(25)
  expect(waits.at(-1)).toBeLessThan(1_000)
})

test('with few slots and many dead endpoints, deliveries of others are sent as soon as the dead ones are known', () => {
  const waits = simulate({ ...scenario, slots: 100, deadShare: 0.3 })
  expect(quantile(waits, 0.99)).toBeLessThanOrEqual(1_500)
})
