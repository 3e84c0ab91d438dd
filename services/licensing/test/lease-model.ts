import { array, boolean, constant, constantFrom, nat, oneof, option, record } from 'fast-check'
import type { Arbitrary } from 'fast-check'

// A model of floating licences in plain TypeScript, without a database. It deliberately shares no code with the service.

const machine = nat({ max: 5 })
export const leaseCalls = array(
  oneof(
    { weight: 4, arbitrary: record({ call: constant('activate' as const), machine, replaces: boolean() }) },
    { weight: 5, arbitrary: record({ call: constant('refresh' as const), machine }) },
    { weight: 4, arbitrary: record({ call: constant('release' as const), machine }) },
    { weight: 2, arbitrary: record({ call: constant('deactivate' as const), machine }) },
    record({ call: constantFrom('call home' as const, 'free' as const), machine }),
    record({ call: constant('activate offline' as const), machine }),
    {
      weight: 2,
      arbitrary: record({ call: constant('wait' as const), minutes: constantFrom(6, 11, 1_500) }),
    },
    record({ call: constant('limit' as const), max: option(constantFrom(1, 2, 4), { freq: 6 }) }),
  ),
  { minLength: 20, maxLength: 60 },
)

export type LeaseCall = typeof leaseCalls extends Arbitrary<(infer T)[]> ? T : never

interface Installation {
  machine: number
  /** The order of its latest call. */
  calledAt: number
  /** The end in minutes of the model; undefined if the activation never had a lease. */
  leaseEndsAt: number | undefined
  tokenEndsAt: number
  offlineUntil: number
  /** Its product has deactivated it, and it keeps its slot until then. */
  heldUntil: number | undefined
}

export type Answer = 'ok' | 'limit_reached' | 'not_found'

export const leaseMinutes = 10
export const fileDays = 2
const fileMinutes = fileDays * 1_440
const tokenMinutes = 1_440

export class LeaseModel {
  installations: Installation[] = []
  #now = 0
  #calls = 0
  #replaced = 0
  #freed = 0
  #max: number | null
  readonly #slots: number

  constructor(max: number, slots: number) {
    this.#max = max
    this.#slots = slots
  }

  /** The minutes until the ends of leases, by machine; undefined if there is none. */
  get ends(): Map<number, number | undefined> {
    return new Map(
      this.installations.map((each) => [
        each.machine,
        each.leaseEndsAt === undefined ? undefined : each.leaseEndsAt - this.#now,
      ]),
    )
  }

  get inUse(): number {
    return this.installations.filter((each) => this.#holds(each)).length
  }

  do(call: LeaseCall): Answer {
    this.#calls += 1
    switch (call.call) {
      case 'wait':
        this.#now += call.minutes
        this.installations = this.installations.filter(({ heldUntil }) => !(heldUntil! <= this.#now))
        return 'ok'
      case 'limit':
        return this.#limit(call.max)
      case 'activate':
        return this.#activate(call.machine, call.replaces, 0)
      case 'activate offline':
        return this.#activate(call.machine, false, this.#now + fileMinutes)
      default:
        return this.#use(call.call, call.machine)
    }
  }

  #limit(max: number | null): Answer {
    this.#max = max
    if (max === null) for (const each of this.installations) each.leaseEndsAt = undefined
    return 'ok'
  }

  #activate(machine: number, replaces: boolean, offlineUntil: number): Answer {
    let own = this.#of(machine)
    const lacks = () => ({
      slot: own === undefined && this.installations.length >= this.#slots,
      lease: this.#max !== null && !(own && this.#holds(own)) && this.inUse >= this.#max,
    })
    const { slot, lease } = lacks()
    if (slot || lease) {
      if (!replaces || this.#replaced === 5) return 'limit_reached'
      const candidates = this.installations.filter(
        (each) =>
          (!lease || this.#holds(each)) && each.heldUntil === undefined && each.offlineUntil <= this.#now,
      )
      const oldest = candidates.toSorted((one, other) => one.calledAt - other.calledAt)[0]
      const before = this.installations
      this.installations = this.installations.filter((each) => each !== oldest)
      if (!oldest || lacks().slot || lacks().lease) {
        this.installations = before
        return 'limit_reached'
      }
      this.#replaced += 1
    }
    if (!own) {
      const none = { leaseEndsAt: undefined, tokenEndsAt: 0, offlineUntil: 0, heldUntil: undefined }
      own = { machine, calledAt: this.#calls, ...none }
      this.installations.push(own)
    }
    own.calledAt = this.#calls
    own.heldUntil = undefined
    const running = this.#holds(own) && offlineUntil > 0 ? own.leaseEndsAt! : 0
    own.offlineUntil = Math.max(own.offlineUntil, offlineUntil)
    this.#grant(own, offlineUntil > 0 ? fileMinutes : leaseMinutes, running)
    return 'ok'
  }

  #grant(own: Installation, minutes: number, running = 0): void {
    let ends = this.#now + Math.max(minutes, tokenMinutes)
    if (this.#max !== null) {
      own.leaseEndsAt = Math.max(this.#now + minutes, own.offlineUntil, running)
      ends = Math.min(ends, own.leaseEndsAt)
    }
    own.tokenEndsAt = Math.max(own.tokenEndsAt, ends)
  }

  #use(call: 'refresh' | 'release' | 'call home' | 'deactivate' | 'free', machine: number): Answer {
    const own = this.#of(machine)
    if (!own || (call !== 'free' && own.heldUntil !== undefined)) return 'not_found'
    if (call === 'free') this.#remove(own)
    if (call === 'release' && this.#holds(own)) this.#endLease(own, this.#keptUntil(own))
    if (call === 'deactivate') {
      const until = this.#keptUntil(own)
      if (this.#holds(own)) this.#endLease(own, until)
      if (until > this.#now) own.heldUntil = until
      else this.#remove(own)
    }
    if (call !== 'refresh' && call !== 'call home') return 'ok'
    own.calledAt = this.#calls
    if (call === 'call home') return 'ok'
    if (this.#max !== null && !this.#holds(own) && this.inUse >= this.#max) return 'limit_reached'
    this.#grant(own, leaseMinutes)
    return 'ok'
  }

  /** Until when an activation that its product releases or deactivates counts: its file, and after ten also its token. */
  #keptUntil({ tokenEndsAt, offlineUntil }: Installation): number {
    if (tokenEndsAt <= Math.max(this.#now, offlineUntil)) return offlineUntil
    this.#freed += 1
    return this.#freed > 10 ? tokenEndsAt : offlineUntil
  }

  #endLease(own: Installation, until: number): void {
    own.leaseEndsAt = Math.max(this.#now, Math.min(own.leaseEndsAt!, until))
  }

  #remove(own: Installation): void {
    this.installations = this.installations.filter((each) => each !== own)
  }

  #of(machine: number): Installation | undefined {
    return this.installations.find((each) => each.machine === machine)
  }

  #holds({ leaseEndsAt }: Installation): boolean {
    return this.#max !== null && leaseEndsAt !== undefined && leaseEndsAt > this.#now
  }
}
