import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { EndpointSettings, AttemptOutcome } from './endpoint-queue.ts'
import { Scheduler } from './scheduler.ts'
import type { AttemptKind, ClaimedDelivery } from './claimed-delivery.ts'

const settings = (id: string, generation = 1n, accountId = `account of ${id}`): EndpointSettings => ({
  id,
  accountId,
  url: `https://${id}.example/`,
  paused: false,
  signature: 'default',
  secret: `secret of ${id} ${generation}`,
  former: null,
  headers: [],
  generation,
})

let made = 0
function givenClaimed(endpointId: string, kind: AttemptKind = 'first', leaseEndsAt = 1e9): ClaimedDelivery {
  made += 1
  const delivery = {
    id: `dlv_${made}`,
    application_id: 'app_1',
    endpoint_id: endpointId,
    event_id: `evt_${made}`,
    body: '{}',
    trace_parent: null,
    created_at: new Date(),
    attempt_count: kind === 'first' ? 0 : 1,
    scheduled_attempts: 0,
    is_replay: false,
  }
  return { delivery, claimId: 'claim', leaseEndsAt }
}

function add(scheduler: Scheduler, endpointId: string, count: number, kind: AttemptKind = 'first'): void {
  for (let i = 0; i < count; i += 1) scheduler.add(settings(endpointId), givenClaimed(endpointId, kind))
}

/** Starts all deliveries that may be started now. */
function startAll(scheduler: Scheduler, now = 0): ClaimedDelivery[] {
  const started: ClaimedDelivery[] = []
  for (let pick = scheduler.next(now); pick; pick = scheduler.next(now)) started.push(pick.claimed)
  return started
}

/** Starts all deliveries that may be started within `ms`. */
function startDuring(scheduler: Scheduler, from: number, ms: number): ClaimedDelivery[] {
  return Array.from({ length: ms }, (_, after) => startAll(scheduler, from + after)).flat()
}

const countOf = (claims: ClaimedDelivery[], endpointId: string) =>
  claims.filter(({ delivery }) => delivery.endpoint_id === endpointId).length

test('attempts in flight to an endpoint start at 2, grow with successes to 32, and fall to 1 on a timeout', () => {
  const scheduler = new Scheduler(1_000)
  add(scheduler, 'a', 500)
  let inFlight = startAll(scheduler)
  expect(inFlight).toHaveLength(2)
  for (const expected of [4, 8, 16, 32, 32, 32]) {
    for (const claimed of inFlight) scheduler.ended(claimed, 'delivered', 0)
    inFlight = startAll(scheduler)
    expect(inFlight).toHaveLength(expected)
  }
  const [slow, ...others] = inFlight
  scheduler.ended(slow!, 'timeout', 5_000)
  for (const claimed of others) scheduler.ended(claimed, 'failed', 5_000)
  expect(startAll(scheduler, 5_000)).toHaveLength(1)
})

test('endpoints that never answer share half of the slots, get them one after the other, and do not delay others', () => {
  const scheduler = new Scheduler(100)
  for (let i = 0; i < 60; i += 1) add(scheduler, `dead ${i}`, 5)
  // So do unknown endpoints.
  const unknown = startAll(scheduler, 0)
  expect(unknown).toHaveLength(50)
  for (const claimed of unknown) scheduler.ended(claimed, 'timeout', 5_000)
  for (const claimed of startAll(scheduler, 5_000)) scheduler.ended(claimed, 'timeout', 10_000)
  add(scheduler, 'well', 2)
  const at = 11_000
  expect(scheduler.slowFrom(at)).toBeUndefined()
  const first = startAll(scheduler, at)
  expect(countOf(first, 'well')).toBe(2)
  expect(first).toHaveLength(3)
  for (const claimed of first) if (countOf([claimed], 'well') === 1) scheduler.ended(claimed, 'delivered', at)
  expect(scheduler.slowFrom(at)).toBe(at + 50)
  expect(startAll(scheduler, at + 49)).toEqual([])
  expect(startAll(scheduler, at + 50)).toHaveLength(1)
  const slow = startDuring(scheduler, at + 51, 2_500)
  expect(slow).toHaveLength(48)
  expect(scheduler.busy.slow).toBe(50)
  // An endpoint that has not answered yet gets the next slot of this half. Proven endpoints have the other half.
  add(scheduler, 'another', 1)
  expect(startAll(scheduler, at + 3_000)).toEqual([])
  scheduler.ended(slow[0]!, 'timeout', at + 3_000)
  expect(countOf(startAll(scheduler, at + 3_000), 'another')).toBe(1)
  add(scheduler, 'well', 10)
  expect(startAll(scheduler, at + 3_000)).toHaveLength(4)
})

test('an endpoint is slow as soon as an attempt has waited for a second', () => {
  const scheduler = new Scheduler(100)
  add(scheduler, 'a', 40)
  for (let i = 0; i < 3; i += 1) {
    for (const claimed of startAll(scheduler, 0)) scheduler.ended(claimed, 'delivered', 0)
  }
  startAll(scheduler, 0)
  expect(scheduler.busy.proven).toBeGreaterThan(8)
  scheduler.tick(1_001)
  expect(scheduler.busy).toMatchObject({ proven: 0, slow: scheduler.busy.all })
})

test('retries leave slots to first attempts, and first attempts to retries', () => {
  const scheduler = new Scheduler(100)
  const open = (prefix: string, kind: AttemptKind) => {
    for (let i = 0; i < 100; i += 1) {
      // These endpoints are proven, so that only the shares of the kinds limit them.
      add(scheduler, `${prefix} ${i}`, 1, kind)
      for (const claimed of startAll(scheduler, 0)) scheduler.ended(claimed, 'delivered', 0)
    }
    for (let i = 0; i < 100; i += 1) add(scheduler, `${prefix} ${i}`, 2, kind)
  }
  open('retried', 'later')
  expect(startAll(scheduler)).toHaveLength(40)
  open('fresh', 'first')
  startAll(scheduler)
  expect(scheduler.busy.first).toBe(60)
  expect(scheduler.busy.later).toBe(40)
})

test('accounts take turns, however many endpoints each of them has', () => {
  const scheduler = new Scheduler(20)
  const give = (accountId: string, endpoints: number, each: number) => {
    for (let i = 0; i < endpoints; i += 1) {
      const id = `${accountId} ${i}`
      for (let n = 0; n < each; n += 1) scheduler.add(settings(id, 1n, accountId), givenClaimed(id))
    }
  }
  give('large', 50, 2)
  give('small', 1, 2)
  give('other', 2, 1)
  const accountOf = ({ delivery }: ClaimedDelivery) => delivery.endpoint_id.split(' ')[0]
  // Unknown endpoints get half of the slots.
  const started = startAll(scheduler)
  expect(started.map(accountOf)).toEqual([
    'large',
    'small',
    'other',
    'large',
    'small',
    'other',
    ...Array.from({ length: 4 }, () => 'large'),
  ])
  // The endpoints of an account take turns.
  expect(new Set(started.map(({ delivery }) => delivery.endpoint_id)).size).toBe(6 + 1 + 2)
})

test('an account with hundreds of endpoints leaves capacity of the queue to other accounts', () => {
  const scheduler = new Scheduler(512)
  let queued = 0
  for (let i = 0; i < 2_000; i += 1) {
    const endpoint = settings(`endpoint ${i}`, 1n, 'large')
    for (let capacity = scheduler.capacity(endpoint); capacity > 0; capacity -= 1) {
      scheduler.add(endpoint, givenClaimed(endpoint.id))
      queued += 1
    }
  }
  expect(queued).toBeLessThan(5_100)
  expect(scheduler.capacity(settings('another of them', 1n, 'large'))).toBe(0)
  expect(scheduler.full()).toEqual({ accounts: ['large'], endpoints: [] })
  expect(scheduler.capacity(settings('of another account'))).toBe(16)
  for (const { delivery } of startAll(scheduler)) scheduler.drop(delivery.endpoint_id)
  expect(scheduler.capacity(settings('another of them', 1n, 'large'))).toBe(16)
})

test('a few accounts cannot fill the queue: capacity is left for every other account', () => {
  const scheduler = new Scheduler(512)
  for (let account = 0; account < 8; account += 1) {
    const of = (i: number) => settings(`endpoint ${account} ${i}`, 1n, `account ${account}`)
    expect(scheduler.capacity(of(0)), `account ${account}`).toBe(16)
    for (let i = 0; scheduler.capacity(of(i)) > 0; i += 1) scheduler.add(of(i), givenClaimed(of(i).id))
  }
  expect(scheduler.queued).toBeGreaterThan(19_000)
  expect(scheduler.full()).not.toBeNull()
})

test('deliveries of a slow endpoint that it cannot send soon are released, and no more are claimed', () => {
  const scheduler = new Scheduler(100)
  expect(scheduler.capacity(settings('a'))).toBe(16)
  add(scheduler, 'a', 16)
  expect(scheduler.capacity(settings('a'))).toBe(0)
  expect(scheduler.full()).toEqual({ accounts: [], endpoints: ['a'] })
  const [claimed] = startAll(scheduler, 0)
  scheduler.ended(claimed!, 'timeout', 5_000)
  expect(scheduler.tick(5_000)).toHaveLength(12)
  expect(scheduler.queued).toBe(2)
})

test('a delivery whose lease is about to end is released and not sent', () => {
  const scheduler = new Scheduler(100)
  scheduler.add(settings('a'), givenClaimed('a', 'first', 10_000))
  scheduler.add(settings('a'), givenClaimed('a', 'first', 20_000))
  const [started, ...others] = startAll(scheduler, 4_000)
  expect(others).toEqual([])
  expect(started!.leaseEndsAt).toBe(20_000)
  expect(scheduler.tick(4_000).map(({ leaseEndsAt }) => leaseEndsAt)).toEqual([10_000])
  expect(scheduler.tick(4_000)).toEqual([])
})

test('queued deliveries are sent with the newest settings, in whatever order the settings arrive', () => {
  const scheduler = new Scheduler(100)
  add(scheduler, 'a', 1)
  scheduler.change(settings('a', 3n))
  scheduler.change(settings('a', 2n))
  scheduler.add(settings('a', 1n), givenClaimed('a'))
  expect(scheduler.next(0)!.settings.generation).toBe(3n)
  expect(scheduler.next(0)!.settings.generation).toBe(3n)
})

test('no delivery is lost or started twice, and no limit is exceeded, in any order of calls', () => {
  const endpoint = fc.integer({ min: 0, max: 5 }).map((i) => `e${i}`)
  const step = fc.oneof(
    fc.record({
      do: fc.constant('add' as const),
      endpoint,
      kind: fc.constantFrom<AttemptKind>('first', 'later'),
      lease: fc.integer({ min: 0, max: 30_000 }),
    }),
    fc.record({
      do: fc.constant('end' as const),
      which: fc.nat(100),
      ending: fc.constantFrom<AttemptOutcome>('delivered', 'failed', 'timeout'),
    }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 3_000 }) }),
    fc.record({ do: fc.constant('drop' as const), endpoint }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const slots = 10
      const scheduler = new Scheduler(slots)
      const [queued, inFlight] = [new Set<ClaimedDelivery>(), new Set<ClaimedDelivery>()]
      const gone = (claims: ClaimedDelivery[]) => {
        for (const claimed of claims) expect(queued.delete(claimed)).toBe(true)
      }
      let now = 0
      for (const step of steps) {
        if (step.do === 'add') {
          const claimed = givenClaimed(step.endpoint, step.kind, now + step.lease)
          queued.add(claimed)
          scheduler.add(settings(step.endpoint), claimed)
        } else if (step.do === 'end') {
          const claimed = [...inFlight][step.which]
          if (claimed) inFlight.delete(claimed)
          if (claimed) scheduler.ended(claimed, step.ending, now)
        } else if (step.do === 'wait') {
          now += step.ms
          gone(scheduler.tick(now))
        } else gone(scheduler.drop(step.endpoint))
        for (const claimed of startAll(scheduler, now)) {
          expect(queued.delete(claimed)).toBe(true)
          inFlight.add(claimed)
        }
        expect(inFlight.size).toBeLessThanOrEqual(slots)
        expect(scheduler.busy.all).toBe(inFlight.size)
        expect(scheduler.busy.first + scheduler.busy.later).toBe(inFlight.size)
        expect(scheduler.busy.proven + scheduler.busy.unknown + scheduler.busy.slow).toBe(inFlight.size)
      }
      gone(scheduler.empty())
      expect(queued.size).toBe(0)
      expect(scheduler.queued).toBe(0)
      // After all attempts have ended, the next one can start: no limit counts the ended attempts.
      for (const claimed of inFlight) scheduler.ended(claimed, 'delivered', now)
      scheduler.add(settings('last'), givenClaimed('last'))
      expect(scheduler.next(now)?.claimed.delivery.endpoint_id).toBe('last')
    }),
  )
})
