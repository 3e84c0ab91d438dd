import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import {
  findSlots,
  insertActivations,
  lockActivations,
  lockLicencesOfKeys,
  lockWithMachine,
  updateActivations,
} from './activation-queries.ts'
import type {
  KnownActivation,
  LicenceOfMachine,
  OnLocked,
  ProductLicence,
  Slots,
} from './activation-queries.ts'
import { byProduct, countToday, findOldest, freeActivations, freesPerDay } from './freeing-queries.ts'
import { countLeases, writeLeases } from './lease-queries.ts'
import type { CountedLeases } from './lease-queries.ts'
import { whyNoLease } from './leases.ts'
import { refusalReason } from './may-run.ts'
import type { RefusalReason } from './may-run.ts'
import { latestEnd, tokenEnd } from './token.ts'
import type { Granted } from './token.ts'
import { freeHeld } from './unused-queries.ts'

export interface Applicant {
  licenceKey: string
  fingerprint: string
  host: string
  productVersion: string
  /** The longest life of its token. */
  lifeSeconds: number
  /** Whether its token is a file for a machine without a network. Then its lease lasts as long. */
  isOffline: boolean
  /** Set if a vendor makes the request: then licences of other applications are not found. */
  of?: Application
}

export interface Application {
  accountId: string
  applicationId: string
}

/** An activation of a licence with which the product may run. */
export interface GivenSlot extends Granted {
  created: boolean
  /** The end of the token that it gets. */
  tokenEndsAt: Date
}

export type SlotOutcome =
  | ({ kind: 'assigned' } & GivenSlot)
  | { kind: 'refused'; reason: RefusalReason; licence: ProductLicence; now: Date }
  | { kind: 'full'; licence: ProductLicence; excess: Excess; usedUp: UsedUp; detail: string }
  | { kind: 'over quota'; quota: number }
  | typeof unknown

/** No licence has this key. */
export const unknown = { kind: 'unknown' } as const

/** The restriction that refuses an activation. The SDK tells them apart. */
type UsedUp = 'max_activations' | 'max_concurrent'

/** The numbers of activations and leases that have to end before one more is possible. */
interface Excess {
  activations: number
  leases: number
}

/**
 * The slot of an installation that is activated already. Nothing has to be written for it, so the licence is not locked:
 *
 * - If its activation is freed meanwhile, `recordedSlot` finds that out under the lock of the activation's row.
 * - If the licence is revoked or suspended meanwhile, the call came first: the licence was read after the call arrived.
 *
 * @returns undefined if the licence has to be locked: the installation is new, the licence refuses it or is floating, or the
 * machine gets a file
 */
export function knownSlot(
  licence: LicenceOfMachine,
  applicant: Applicant,
  now: Date,
): SlotOutcome | undefined {
  const { activation_id: activationId } = licence
  if (activationId === null || licence.max_concurrent !== null || applicant.isOffline) return undefined
  if (!isOf(licence, applicant)) return undefined
  if (refusalReason(licence, applicant.host, now) !== undefined) return undefined
  const tokenEndsAt = tokenEnd([latestEnd(licence, now)], applicant.lifeSeconds, now)
  return { kind: 'assigned', activationId, created: false, licence, now, leaseEndsAt: null, tokenEndsAt }
}

/**
 * Gives slots to installations, in their order.
 *
 * @param onLocked whether to wait for licences that other transactions have locked
 * @returns undefined for an installation if no licence with its key could be locked
 */
export async function assignSlots(
  tx: Transaction,
  clock: () => Date,
  applicants: Applicant[],
  onLocked: OnLocked = 'wait',
): Promise<(SlotOutcome | undefined)[]> {
  const keys = [...new Set(applicants.map(({ licenceKey }) => licenceKey))]
  const licences = await lockLicencesOfKeys(tx, keys, onLocked)
  const now = clock()
  const outcomes = new Map<Applicant, SlotOutcome>()
  const admitted = new Map<ProductLicence, Applicant[]>()
  for (const applicant of applicants) {
    const licence = licences.get(applicant.licenceKey)
    if (!licence) continue
    const reason = refusalReason(licence, applicant.host, now)
    if (!isOf(licence, applicant)) outcomes.set(applicant, unknown)
    else if (reason !== undefined) outcomes.set(applicant, { kind: 'refused', reason, licence, now })
    else admitted.set(licence, [...(admitted.get(licence) ?? []), applicant])
  }
  await giveSlots(tx, now, admitted, outcomes)
  return applicants.map((applicant) => outcomes.get(applicant))
}

function isOf(licence: ProductLicence, { of }: Applicant): boolean {
  if (of === undefined) return true
  return of.accountId === licence.account_id && of.applicationId === licence.application_id
}

/**
 * Gives a slot. If the licence is full and one activation less is enough, the activation that called home longest ago and
 * has no file is freed. Its slot is free at once, even if its token is still valid.
 */
export async function assignOrReplace(
  tx: Transaction,
  clock: () => Date,
  applicant: Applicant,
): Promise<SlotOutcome> {
  const [outcome = unknown] = await assignSlots(tx, clock, [applicant])
  if (outcome.kind !== 'full') return outcome
  const { licence, excess } = outcome
  if (excess.activations > 1 || excess.leases > 1) return outcome
  const oldest = await findOldest(tx, licence.id, { withLease: excess.leases > 0 })
  if (oldest === undefined || !(await countToday(tx, licence.id, 'oldest', freesPerDay.oldest)))
    return outcome
  await lockWithMachine(tx, licence.id, oldest, applicant.fingerprint)
  await freeActivations(tx, licence, [oldest], byProduct)
  const [assigned = unknown] = await assignSlots(tx, clock, [applicant])
  return assigned
}

interface Given {
  applicant: Applicant
  licence: ProductLicence
  activationId: string
  created: boolean
  /** Whether the activation holds no lease yet. */
  needsLease: boolean
  /** The activation of this machine whose product has deactivated it, and whose slot and lease this one takes. */
  former: KnownActivation | undefined
}

/** Decides the outcomes for applicants that their licence does not refuse, and writes the slots. */
async function giveSlots(
  tx: Transaction,
  now: Date,
  applicants: ReadonlyMap<ProductLicence, Applicant[]>,
  outcomes: Map<Applicant, SlotOutcome>,
): Promise<void> {
  if (applicants.size === 0) return
  const slots = await currentSlots(tx, applicants)
  const given: Given[] = []
  for (const [licence, own] of applicants) {
    const isFloating = licence.max_concurrent !== null
    const known = [...slots.get(licence.id)!.known.values()].map(({ id }) => id)
    const leases = isFloating ? await countLeases(tx, licence.id, known) : undefined
    given.push(...decideSlots(licence, own, slots.get(licence.id)!, leases, outcomes))
  }
  if (given.length > 0) await writeSlots(tx, now, given, outcomes)
}

/** The slots of licences, without activations that are kept although their time is over. */
async function currentSlots(
  tx: Transaction,
  applicants: ReadonlyMap<ProductLicence, Applicant[]>,
): Promise<Map<string, Slots>> {
  const asked = [...applicants].map(([licence, own]) => ({
    licence,
    fingerprints: own.map(({ fingerprint }) => fingerprint),
  }))
  const slots = await findSlots(tx, asked)
  const stale = asked.filter(({ licence }) => slots.get(licence.id)!.ended > 0)
  if (stale.length === 0) return slots
  for (const { licence } of stale) await freeHeld(tx, licence, slots.get(licence.id)!.ended)
  return new Map([...slots, ...(await findSlots(tx, stale))])
}

/** @returns the slots to write; the outcomes of the other applicants are set */
function decideSlots(
  licence: ProductLicence,
  applicants: Applicant[],
  slots: Slots,
  leases: CountedLeases | undefined,
  outcomes: Map<Applicant, SlotOutcome>,
): Given[] {
  const { known } = slots
  const max = {
    slots: licence.max_activations ?? Number.POSITIVE_INFINITY,
    leases: licence.max_concurrent ?? Number.POSITIVE_INFINITY,
  }
  const used = { slots: slots.taken, leases: leases?.counted ?? 0 }
  const given: Given[] = []
  for (const applicant of applicants) {
    const { fingerprint } = applicant
    const own = known.get(fingerprint)
    const needsSlot = own === undefined
    const needsLease = leases !== undefined && !(own !== undefined && leases.holders.has(own.id))
    const isFull = needsSlot && used.slots >= max.slots
    const excess = {
      activations: needsSlot ? Math.max(0, used.slots + 1 - Math.min(max.slots, slots.quota)) : 0,
      leases: needsLease ? Math.max(0, used.leases + 1 - max.leases) : 0,
    }
    if (isFull || excess.leases > 0) {
      const detail = isFull ? whyFull(max.slots, slots) : whyNoLease(licence)
      const usedUp = isFull ? 'max_activations' : 'max_concurrent'
      outcomes.set(applicant, { kind: 'full', licence, excess, usedUp, detail })
    } else if (excess.activations > 0) {
      // The licence's own limits come before the quota.
      outcomes.set(applicant, { kind: 'over quota', quota: slots.quota })
    } else {
      const former = own?.kept ? own : undefined
      const created = own === undefined || former !== undefined
      const activationId = created ? newId('act') : own.id
      if (needsSlot) used.slots += 1
      if (needsLease) used.leases += 1
      known.set(fingerprint, { id: activationId, kept: null })
      leases?.holders.add(activationId)
      given.push({ applicant, licence, activationId, created, needsLease, former })
    }
  }
  return given
}

async function writeSlots(
  tx: Transaction,
  now: Date,
  given: Given[],
  outcomes: Map<Applicant, SlotOutcome>,
): Promise<void> {
  const known = given.filter(({ created }) => !created).map(({ activationId }) => activationId)
  const former = given.flatMap((each) => (each.former ? [{ licence: each.licence, id: each.former.id }] : []))
  if (known.length + former.length > 0) await lockActivations(tx, [...known, ...former.map(({ id }) => id)])
  for (const [licence, own] of Map.groupBy(former, (each) => each.licence)) {
    await freeActivations(
      tx,
      licence,
      own.map(({ id }) => id),
      byProduct,
    )
  }
  const wanted = given.map((each) => {
    const { isOffline, lifeSeconds } = each.applicant
    const offlineUntil = isOffline ? tokenEnd([latestEnd(each.licence, now)], lifeSeconds, now) : null
    const kept = each.former?.kept
    return {
      ...each,
      kept,
      isNew: each.needsLease || kept != null,
      offlineUntil,
      keptUntil: kept?.offlineUntil,
    }
  })
  const ends = new Map<string, Date>()
  for (const [licence, own] of Map.groupBy(wanted, (each) => each.licence)) {
    if (licence.max_concurrent === null) continue
    for (const [id, end] of await writeLeases(tx, licence, own)) ends.set(id, end)
  }
  const assigned = wanted.map(({ applicant, licence, activationId: id, created, kept, offlineUntil }) => {
    const leaseEndsAt = ends.get(id) ?? null
    const tokenEndsAt = tokenEnd([latestEnd(licence, now), leaseEndsAt], applicant.lifeSeconds, now)
    const slot = { activationId: id, created, licence, now, leaseEndsAt, tokenEndsAt }
    outcomes.set(applicant, { kind: 'assigned', ...slot })
    const { fingerprint, host, productVersion } = applicant
    const last = {
      tokenEndsAt: latest(tokenEndsAt, kept?.tokenEndsAt)!,
      offlineUntil: latest(offlineUntil, kept?.offlineUntil),
    }
    return { created, row: { id, ...last, licence, fingerprint, host, productVersion } }
  })
  const granted = (isNew: boolean) =>
    assigned.filter(({ created }) => created === isNew).map(({ row }) => row)
  if (known.length < given.length) await insertActivations(tx, granted(true))
  if (known.length > 0) await updateActivations(tx, granted(false))
}

function latest(...times: (Date | null | undefined)[]): Date | null {
  const known = times.flatMap((time) => (time ? [time.getTime()] : []))
  return known.length === 0 ? null : new Date(Math.max(...known))
}

function whyFull(max: number, { held, heldUntil }: Slots): string {
  if (heldUntil === null) {
    return `the licence is active on as many installations as it allows (${max}): deactivate one of them first`
  }
  return (
    `the licence allows ${max} activations, and ${held} that products deactivated still count: a licence file counts ` +
    `until it ends, and if more than ten are deactivated on one day, each further one counts until its last token ends; ` +
    `the next at ${heldUntil.toISOString()}. Wait until then, or ask the vendor to free an activation or to allow more`
  )
}
