import type { Database } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { LRUCache } from 'lru-cache'
import { createBatcher } from '@licensing/changes/batcher'
import { findRevoked } from './revocation-queries.ts'

/** A licence id in quotes and a comma. A multiple of three, so that the base64 texts of entries can be joined. */
export const entryBytes = 33
/** Entries are read and cached in segments of this size. A segment begins at a multiple of it. */
export const segmentEntries = 4_096

/** The versions after `from` and up to `to`, within one segment. */
export interface Range {
  from: number
  to: number
}

/** Entries of an application's list as JSON text. The caller must not change the buffer. */
export type RevocationEntries = (applicationId: string, range: Range) => Promise<Buffer>

/** The versions after `from` and up to `to`, by segment. */
export function segmentsOf(from: number, to: number): Range[] {
  const ranges: Range[] = []
  for (let at = from; at < to;) {
    const end = Math.min(to, (Math.floor(at / segmentEntries) + 1) * segmentEntries)
    ranges.push({ from: at, to: end })
    at = end
  }
  return ranges
}

// Two million entries. Segments beyond that are read again when they are needed.
const maxBytes = 64 * 1024 * 1024

interface Read {
  applicationId: string
  range: Range
}

/**
 * The entries of lists, cached once for all versions of a list and all answers. A list only grows, so the cached entries of
 * a segment never change.
 */
export function revocationEntries(sql: Database): RevocationEntries {
  const kept = new LRUCache<string, Buffer>({
    maxSize: maxBytes,
    sizeCalculation: (bytes) => 1 + bytes.length,
  })
  const reading = new Map<string, Promise<Buffer>>()
  const read = createBatcher<Read, Buffer>(
    async ([wanted]) => {
      const { applicationId, range } = wanted!
      const text = await findRevoked(sql, applicationId, range.from, range.to)
      if (text.length !== (range.to - range.from) * entryBytes) {
        throw new Error(
          `the revocations of ${applicationId} from ${range.from} to ${range.to} have gaps or other ids`,
        )
      }
      return [Buffer.from(text, 'latin1')]
    },
    { maxBatchSize: 1, slots: 4, isTransient: isDatabaseUnavailable },
  )

  const grow = async (name: string, applicationId: string, { from, to }: Range): Promise<Buffer> => {
    const known = kept.get(name) ?? Buffer.alloc(0)
    const knownTo = from + known.length / entryBytes
    if (knownTo >= to) return known
    const bytes = Buffer.concat([known, await read({ applicationId, range: { from: knownTo, to } })])
    if (bytes.length > (kept.peek(name)?.length ?? 0)) kept.set(name, bytes)
    return bytes
  }

  return async (applicationId, { from, to }) => {
    const first = Math.floor(from / segmentEntries) * segmentEntries
    const name = `${applicationId} ${first}`
    const wanted = `${name} ${to}`
    const started = reading.get(wanted) ?? grow(name, applicationId, { from: first, to })
    reading.set(wanted, started)
    try {
      return (await started).subarray((from - first) * entryBytes, (to - first) * entryBytes)
    } finally {
      reading.delete(wanted)
    }
  }
}
