import { minute } from '../../parts/text.tsx'

/** One value that changed, in words. */
interface ChangedValue {
  name: string
  from: string
  to: string
}

type Changes = Readonly<Record<string, { from: unknown; to: unknown }>>

/** The values that changed. A field that is an object or a list counts as one value per member. */
export function changedValues(changes: Changes): ChangedValue[] {
  return Object.entries(changes).flatMap(([field, { from, to }]) => {
    const overridden = /^overrides\.(.+)$/.exec(field)?.[1]
    if (overridden !== undefined) {
      return [{ name: `override of ${overridden}`, from: override(from), to: override(to) }]
    }
    const [before, after] = [membersOf(from), membersOf(to)]
    if (!before || !after) return [{ name: words(field), from: written(from), to: written(to) }]
    const names = [...new Set([...before.keys(), ...after.keys()])].sort()
    return names
      .map((name) => ({
        name: `${words(field)}: ${field === 'restrictions' ? words(name) : name}`,
        from: written(before.get(name)),
        to: written(after.get(name)),
      }))
      .filter((value) => value.from !== value.to)
  })
}

/** The values of an object, or of a list of entitlements, by name; undefined if it is neither. */
function membersOf(value: unknown): ReadonlyMap<string, unknown> | undefined {
  if (value === null || value === undefined) return new Map()
  if (Array.isArray(value)) {
    return value.every(isEntitlement) ? new Map(value.map(({ key, value: held }) => [key, held])) : undefined
  }
  return typeof value === 'object' ? new Map(Object.entries(value)) : undefined
}

function isEntitlement(value: unknown): value is { key: string; value: unknown } {
  return typeof value === 'object' && value !== null && 'key' in value && 'value' in value
}

/** The settings of an override: `true until 3 May 2027, 23:59 (promised in ticket 812)`. */
function override(settings: unknown): string {
  const { value, ends_on: end, note } = Object.fromEntries(membersOf(settings) ?? [['value', settings]])
  if (value === undefined) return written(null)
  const until = typeof end === 'string' ? ` until ${written(end)}` : ''
  const because = typeof note === 'string' ? ` (${note})` : ''
  return `${written(value)}${until}${because}`
}

const timestamp = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

function written(value: unknown): string {
  if (value === null || value === undefined) return 'none'
  if (Array.isArray(value)) return value.map(written).join(', ')
  if (typeof value !== 'string') return JSON.stringify(value)
  return timestamp.test(value) ? minute(value) : value
}

function words(field: string): string {
  return field.replaceAll('_', ' ')
}
