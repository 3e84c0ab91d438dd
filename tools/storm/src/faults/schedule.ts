import { randomOf } from '../random.ts'
import { linkNames, processNames, receiverNames } from '../stack.ts'

/** The targets of a fault. Faults of one target never overlap; faults of different targets do. */
interface Kind {
  weight: number
  targets: readonly string[]
  /** Shortest and longest duration in milliseconds. */
  lasts: readonly [number, number]
}

const postgresLinks = linkNames.filter((name) => name.endsWith('>postgres'))
const natsLinks = linkNames.filter((name) => name.endsWith('>nats'))
const otherLinks = linkNames.filter((name) => !postgresLinks.includes(name) && !natsLinks.includes(name))
const receiverLinks = receiverNames.map((name) => `notifier>${name}`)

const short = [200, 4_000] as const
// Longer than a lease, so that the lease expires while its holder is frozen.
const long = [7_000, 12_000] as const

/** Every fault of the storm. */
export const faultKinds = {
  kill: { weight: 8, targets: processNames, lasts: short },
  terminate: { weight: 6, targets: processNames, lasts: short },
  freeze: { weight: 5, targets: processNames, lasts: short },
  'freeze past the lease': { weight: 5, targets: processNames, lasts: long },
  'kill postgres': { weight: 2, targets: ['postgres'], lasts: short },
  'freeze postgres': { weight: 2, targets: ['postgres'], lasts: [500, 9_000] },
  'restart postgres': { weight: 2, targets: ['postgres'], lasts: short },
  'terminate connections': { weight: 3, targets: ['postgres'], lasts: [200, 400] },
  'kill nats': { weight: 2, targets: ['nats'], lasts: [200, 8_000] },
  'freeze nats': { weight: 2, targets: ['nats'], lasts: [500, 12_000] },
  'restart nats': { weight: 2, targets: ['nats'], lasts: short },
  'wipe nats': { weight: 2, targets: ['nats'], lasts: [200, 4_000] },
  // The time between copying the store and restoring the copy.
  'set nats back': { weight: 3, targets: ['nats'], lasts: [1_000, 8_000] },
  'flip a bit of nats': { weight: 2, targets: ['nats'], lasts: [200, 1_000] },
  // A stall loses bytes, and at its end resets the connections that lost some.
  'stall postgres': { weight: 5, targets: postgresLinks, lasts: [500, 11_000] },
  'stall nats': { weight: 7, targets: natsLinks, lasts: [2_000, 12_000] },
  'stall link': { weight: 6, targets: otherLinks, lasts: [500, 10_000] },
  'hold link': { weight: 6, targets: linkNames, lasts: [500, 10_000] },
  'delay link': { weight: 8, targets: linkNames, lasts: [1_000, 10_000] },
  'cut link': { weight: 6, targets: linkNames, lasts: [200, 1_000] },
  'reset link': { weight: 8, targets: linkNames, lasts: [200, 400] },
  'refuse link': { weight: 6, targets: linkNames, lasts: [500, 8_000] },
  'slow receiver': { weight: 3, targets: receiverNames, lasts: [1_000, 10_000] },
  'flapping receiver': { weight: 4, targets: receiverNames, lasts: [1_000, 12_000] },
  'dead receiver': { weight: 3, targets: receiverLinks, lasts: [1_000, 12_000] },
  'processor repeats': { weight: 3, targets: ['processor events'], lasts: [1_000, 8_000] },
  'processor reorders': { weight: 3, targets: ['processor events'], lasts: [1_000, 8_000] },
  'processor drops': { weight: 2, targets: ['processor events'], lasts: [500, 3_000] },
  'processor delays': { weight: 2, targets: ['processor events'], lasts: [1_000, 8_000] },
  'processor fails': { weight: 4, targets: ['processor'], lasts: [500, 6_000] },
  'processor loses answers': { weight: 3, targets: ['processor'], lasts: [500, 4_000] },
  'freeze processor': { weight: 2, targets: ['processor'], lasts: [500, 8_000] },
  'kill everything': { weight: 1, targets: ['everything'], lasts: [200, 3_000] },
} as const satisfies Record<string, Kind>

export type FaultKind = keyof typeof faultKinds

export interface Fault {
  number: number
  kind: FaultKind
  target: string
  /** Milliseconds from the start of the storm. */
  atMs: number
  forMs: number
  /** A number from 0 to 1 for other choices of the fault, such as a direction. */
  choice: number
}

const averageGapMs = 1_150
// After all processes were killed, they need a moment to start before another fault makes sense.
const afterEverythingMs = 6_000

const weights = Object.fromEntries(Object.entries(faultKinds).map(([name, { weight }]) => [name, weight]))

/** The faults of a seed, in order of time. The same seed and count give the same faults. */
export function scheduleOf(seed: number, count: number): Fault[] {
  const random = randomOf(seed)
  const busyUntil = new Map<string, number>()
  const faults: Fault[] = []
  let atMs = 500
  while (faults.length < count) {
    atMs += random.between(averageGapMs / 5, averageGapMs * 1.8)
    const kind = random.weighted(weights) as FaultKind
    const { targets, lasts } = faultKinds[kind] as Kind
    const target = random.pick(targets)
    const forMs = random.between(lasts[0], lasts[1])
    const choice = random.next()
    // The target already has a fault at this time, so this fault is skipped.
    if ((busyUntil.get(target) ?? 0) > atMs) continue
    busyUntil.set(target, atMs + forMs + (target === 'everything' ? afterEverythingMs : 1_000))
    faults.push({ number: faults.length + 1, kind, target, atMs, forMs, choice })
  }
  return faults
}
