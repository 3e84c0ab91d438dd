import type { MetadataChange } from '../gen/rpc/v1/metadata_pb.ts'
import { problemOfText } from './text.ts'

/** Entries that the vendor has stored with a licence or plan, by name. */
export type Metadata = Readonly<Record<string, string>>

export const metadataLimits = {
  entries: 50,
  name: /^[A-Za-z0-9_.-]{1,40}$/,
  value: { min: 0, max: 500 },
} as const

const tooMany = `at most ${metadataLimits.entries} entries`

/**
 * The problem of the metadata in a request, or undefined if it is valid.
 *
 * @returns `pointer` leads from the metadata to the wrong value: empty, or `/` and the name of an entry
 */
export function problemOfMetadata(metadata: Metadata): { pointer: string; problem: string } | undefined {
  const entries = Object.entries(metadata)
  if (entries.length > metadataLimits.entries) return { pointer: '', problem: tooMany }
  for (const [name, value] of entries) {
    const problem = metadataLimits.name.test(name)
      ? problemOfText(value, metadataLimits.value)
      : 'the name of an entry must have 1 to 40 characters: letters, digits, _ . and -'
    if (problem !== undefined) return { pointer: `/${escaped(name)}`, problem }
  }
  return undefined
}

type Change = Pick<MetadataChange, 'remove' | 'set'> & { clear?: boolean | undefined }

/** The problem of a change, or of the metadata after it, like `problemOfMetadata`. */
export function problemOfChange(
  held: Metadata,
  change: Change,
): { pointer: string; problem: string } | undefined {
  const removed = change.remove.map((name) => problemOfMetadata({ [name]: '' })).find(Boolean)
  return problemOfMetadata(change.set) ?? removed ?? problemOfMetadata(changedMetadata(held, change))
}

/** Metadata after a change. */
export function changedMetadata(held: Metadata, { clear, remove, set }: Change): Metadata {
  const kept = clear ? [] : Object.entries(held).filter(([name]) => !remove.includes(name))
  return Object.fromEntries([...kept, ...Object.entries(set)])
}

/**
 * Metadata after a payment with entries of its own. If the result would have too many entries, new names are added in
 * alphabetical order until it is full.
 */
export function mergedMetadata(held: Metadata, brought: Metadata): Metadata {
  const left = Math.max(0, metadataLimits.entries - Object.keys(held).length)
  const isHeld = (name: string) => Object.hasOwn(held, name)
  const fitting = new Set(
    Object.keys(brought)
      .filter((name) => !isHeld(name))
      .toSorted()
      .slice(0, left),
  )
  const taken = Object.entries(brought).filter(([name]) => isHeld(name) || fitting.has(name))
  return Object.fromEntries([...Object.entries(held), ...taken])
}

/** The entries in the order of their names. */
export function byName(metadata: Metadata): Metadata {
  return Object.fromEntries(Object.entries(metadata).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** A name as a part of a JSON Pointer (RFC 6901). */
const escaped = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1')
