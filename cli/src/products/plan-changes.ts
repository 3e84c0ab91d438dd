import type { LicensingBackend } from '@licensing/sdk/backend'
import { withEveryField } from './catalogue.ts'
import type { Catalogue, Definition, Plan } from './catalogue.ts'
import { quoted } from './wanted.ts'
import type { FileProblem, Wanted, WantedEntitlement, WantedPlan } from './wanted.ts'

/** A call that makes one of the changes that the file requires. */
export interface Change {
  /** A text for people: `+ plan pro`. */
  readonly text: string
  /** The line of the file that requires it. */
  readonly line: number
  make(backend: LicensingBackend, appId: string): Promise<unknown>
}

/** The calls in the order in which they can be made, and the flaws that make the file invalid. */
export function planChanges(wanted: Wanted, found: Catalogue): { changes: Change[]; flaws: FileProblem[] } {
  const flaws: FileProblem[] = []
  const entitlements = wanted.entitlements.filter(({ deleted }) => !deleted)
  const kinds = kindsOf(entitlements, found, flaws)
  for (const gone of wanted.entitlements) if (gone.deleted) kinds.delete(gone.key)
  for (const { values, place } of wanted.plans) {
    for (const [name, { value, line }] of values) {
      const key = `${place}.values.${name}`
      const kind = kinds.get(name)
      if (kind === undefined) flaws.push({ line, key, message: `no entitlement has the key ${name}` })
      else if (!valuesOf[kind].pattern.test(value)) {
        flaws.push({ line, key, message: `${valuesOf[kind].problem}, not ${quoted(value)}` })
      }
    }
  }
  flaws.push(
    ...repeated(wanted.entitlements, ({ key }) => key),
    ...repeated(wanted.plans, ({ code }) => code),
  )
  return {
    changes: [
      ...entitlements.flatMap((each) => entitlementChanges(each, found)),
      ...wanted.plans.flatMap((each) => planChange(each, found)),
      ...wanted.entitlements.flatMap((each) => deletion(each, found)),
    ],
    flaws: flaws.toSorted((a, b) => a.line - b.line),
  }
}

const valuesOf: Record<Definition['kind'], { pattern: RegExp; problem: string }> = {
  feature: { pattern: /^(?:true|false)$/, problem: 'is a feature: it must be true or false' },
  limit: { pattern: /^-?\d+$/, problem: 'is a limit: it must be a whole number' },
}
const verbTo: Record<Plan['status'], 'archive' | 'restore'> = { retired: 'archive', active: 'restore' }

function kindsOf(
  entitlements: readonly WantedEntitlement[],
  { definitions }: Catalogue,
  flaws: FileProblem[],
) {
  const kinds = new Map([...definitions].map(([key, { kind }]) => [key, kind] as const))
  for (const { key, kind: asked, value, line, place } of entitlements) {
    const before = kinds.get(key)
    const kind = asked ?? before
    if (kind === undefined) {
      flaws.push({ line, key: `${place}.kind`, message: `is missing: ${key} is new` })
      continue
    }
    if (before !== undefined && kind !== before) {
      const message = `must stay ${before}, not ${kind}: the kind of ${key} cannot be changed`
      flaws.push({ line, key: `${place}.kind`, message })
    }
    if (value !== undefined && !valuesOf[kind].pattern.test(value)) {
      flaws.push({
        line,
        key: `${place}.default`,
        message: `${valuesOf[kind].problem}, not ${quoted(value)}`,
      })
    }
    kinds.set(key, kind)
  }
  return kinds
}

function repeated<Item extends { readonly line: number; readonly place: string }>(
  items: readonly Item[],
  nameOf: (item: Item) => string,
) {
  const seen = new Set<string>()
  return items.flatMap((item): FileProblem[] => {
    const name = nameOf(item)
    if (seen.has(name)) return [{ line: item.line, key: item.place, message: `${name} appears twice` }]
    seen.add(name)
    return []
  })
}

function entitlementChanges(wanted: WantedEntitlement, { definitions }: Catalogue): Change[] {
  const { key, kind, displayName, value, line } = wanted
  const found = definitions.get(key)
  if (found === undefined) {
    const body = {
      key,
      kind: kind!,
      ...(displayName !== undefined && { display_name: displayName }),
      ...(value !== undefined && { default: value }),
    }
    const make: Change['make'] = (backend, appId) =>
      backend.post('/v1/apps/{app_id}/entitlement-defs', { path: { app_id: appId }, body })
    return [{ text: `+ entitlement ${key}`, line, make }]
  }
  const body = {
    ...(displayName !== undefined && displayName !== found.display_name && { display_name: displayName }),
    ...(value !== undefined && value !== found.default && { default: value }),
  }
  if (Object.keys(body).length === 0) return []
  const make: Change['make'] = (backend, appId) =>
    backend.patch('/v1/apps/{app_id}/entitlement-defs/{ent_id}', {
      path: { app_id: appId, ent_id: found.id },
      body,
    })
  const text = differences(
    Object.entries(body).map(([name, to]) => [name, found[name as keyof typeof body], to]),
  )
  return [{ text: `~ entitlement ${key}: ${text}`, line, make }]
}

function deletion({ key, deleted, line }: WantedEntitlement, { definitions }: Catalogue): Change[] {
  const found = definitions.get(key)
  if (!deleted || found === undefined) return []
  const make: Change['make'] = (backend, appId) =>
    backend.delete('/v1/apps/{app_id}/entitlement-defs/{ent_id}', {
      path: { app_id: appId, ent_id: found.id },
    })
  return [{ text: `- entitlement ${key}`, line, make }]
}

function planChange(wanted: WantedPlan, { plans }: Catalogue): Change[] {
  const { code, name, status, values, trialDays, metadata, line } = wanted
  const found = plans.get(code)
  const entitlements = [...values].map(([key, { value }]) => ({ key, value }))
  if (found === undefined) {
    const make: Change['make'] = async (backend, appId) => {
      const path = { app_id: appId }
      const body = withEveryField({
        code,
        name: name ?? code,
        entitlements,
        ...(trialDays !== undefined && { trial_days: trialDays }),
        ...(metadata !== undefined && { metadata }),
      })
      const { id } = await backend.post('/v1/apps/{app_id}/plans', { path, body })
      if (status === 'retired') await move(backend, appId, id, 'archive')
    }
    return [{ text: `+ plan ${code}${status === 'retired' ? ' (retired)' : ''}`, line, make }]
  }
  const isSame =
    found.values.size === values.size &&
    entitlements.every(({ key, value }) => found.values.get(key) === value)
  const entries = metadata === undefined ? [] : metadataChanges(metadata, found.metadata)
  const body = withEveryField({
    ...(code !== found.code && { code }),
    ...(name !== undefined && name !== found.name && { name }),
    ...(!isSame && { entitlements }),
    ...(trialDays !== undefined && trialDays !== found.trial_days && { trial_days: trialDays }),
    ...(entries.length > 0 && { metadata: Object.fromEntries(entries) }),
  })
  const changes: Change[] = []
  if (Object.keys(body).length > 0) {
    const make: Change['make'] = (backend, appId) =>
      backend.patch('/v1/apps/{app_id}/plans/{plan_id}', { path: { app_id: appId, plan_id: found.id }, body })
    const text = differences([
      ...Object.entries(body)
        .filter(([field]) => field !== 'entitlements' && field !== 'metadata')
        .map(([field, to]) => [field, found[field as keyof Plan] ?? 'none', to ?? 'none'] as const),
      ...valueDifferences(found.values, new Map(entitlements.map(({ key, value }) => [key, value]))),
      ...entries.map(
        ([entry, value]) => [`metadata.${entry}`, found.metadata[entry] ?? 'none', value ?? 'none'] as const,
      ),
    ])
    changes.push({ text: `~ plan ${code}: ${text}`, line, make })
  }
  if (status !== undefined && status !== found.status) {
    const verb = verbTo[status]
    changes.push({
      text: `~ plan ${code}: ${differences([['status', found.status, status]])}`,
      line,
      make: (backend, appId) => move(backend, appId, found.id, verb),
    })
  }
  return changes
}

/** The entries that are to be set, and null for those that are to be removed. */
function metadataChanges(
  wanted: Readonly<Record<string, string>>,
  found: Readonly<Record<string, string>>,
): [string, string | null][] {
  const set = Object.entries(wanted).filter(([name, value]) => found[name] !== value)
  const removed = Object.keys(found).filter((name) => !Object.hasOwn(wanted, name))
  return [...set, ...removed.map((name): [string, null] => [name, null])]
}

const move = (backend: LicensingBackend, appId: string, planId: string, verb: 'archive' | 'restore') =>
  backend.post(`/v1/apps/{app_id}/plans/{plan_id}/${verb}`, { path: { app_id: appId, plan_id: planId } })

/** A field, its value in the application, and its value in the file. */
type Difference = readonly [name: string, from: unknown, to: unknown]

const differences = (all: readonly Difference[]) =>
  all.map(([name, from, to]) => `${name} ${String(from)} → ${String(to)}`).join(', ')

/** Compares the values of plans. A value that a plan leaves out is the default of the entitlement. */
function valueDifferences(from: ReadonlyMap<string, string>, to: ReadonlyMap<string, string>): Difference[] {
  return [...new Set([...from.keys(), ...to.keys()])]
    .filter((key) => from.get(key) !== to.get(key))
    .map((key) => [`values.${key}`, from.get(key) ?? 'default', to.get(key) ?? 'default'])
}
