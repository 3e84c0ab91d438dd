import { ServiceError } from '@licensing/grpc/errors'
import type { Readable } from 'node:stream'

const kibibyte = 1024
const mebibyte = 1024 * kibibyte

/** The kinds of senders of bodies. `product` is everybody without an API key except the payment processor. */
export type SenderKind = 'vendor' | 'product' | 'processor'

export interface Sender {
  kind: SenderKind
  /** The account, or the address as rate limits count it. */
  caller: string
}

/** The largest body of each kind of sender. A route can allow another size. */
export const bodyLimits = {
  vendor: mebibyte,
  product: 16 * kibibyte,
  processor: 256 * kibibyte,
} as const satisfies Record<SenderKind, number>

/**
 * How many bytes of bodies the process holds at a time, 64 MiB in total: of each kind of sender, and of one of them. One
 * sender can therefore not stop others, and senders without an API key cannot stop vendors.
 */
const shares = {
  vendor: { together: 32 * mebibyte, each: 8 * mebibyte },
  product: { together: 16 * mebibyte, each: mebibyte },
  processor: { together: 16 * mebibyte, each: 4 * mebibyte },
} as const satisfies Record<SenderKind, { together: number; each: number }>

/** Counts the bytes of all bodies that the process holds. */
export class BodyBudget {
  readonly #together: Record<SenderKind, number> = { vendor: 0, product: 0, processor: 0 }
  readonly #callers = new Map<string, number>()

  /** Begins to count a body. Release it when the request is answered. */
  begin({ kind, caller }: Sender): HeldBytes {
    const key = `${kind} ${caller}`
    let held = 0
    const count = (bytes: number) => {
      held += bytes
      this.#together[kind] += bytes
      const ofCaller = (this.#callers.get(key) ?? 0) + bytes
      if (ofCaller === 0) this.#callers.delete(key)
      else this.#callers.set(key, ofCaller)
    }
    return {
      add: (bytes) => {
        const { together, each } = shares[kind]
        if (this.#together[kind] + bytes > together || (this.#callers.get(key) ?? 0) + bytes > each) {
          throw new ServiceError('unavailable', 'too many bodies are arriving at the moment: try again')
        }
        count(bytes)
      },
      release: () => count(-held),
    }
  }
}

export interface HeldBytes {
  /** @throws ServiceError `unavailable` if the process holds too much */
  add(bytes: number): void
  release(): void
}

/**
 * Reads a body into memory. Its chunks are copied into one buffer, because each chunk is an object, which for a body in
 * chunks of one byte takes a hundred times its size. After a refusal the rest is discarded.
 *
 * @param declaredBytes `Content-Length`, if the request has one
 * @throws ServiceError `payload_too_large`, `unavailable`; `bad_request` if the connection ends before the body
 */
export function readBody(
  stream: Readable,
  { declaredBytes, limit }: { declaredBytes: number | undefined; limit: number },
  held: HeldBytes,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0)
    let length = 0
    const end = (error?: Error) => {
      stream.off('data', add).off('end', end).off('error', end).off('close', broken)
      if (error === undefined) return resolve(bytes.subarray(0, length))
      stream.resume()
      reject(error)
    }
    const broken = () => end(new ServiceError('bad_request', 'the body ended too early'))
    const add = (chunk: Buffer) => {
      try {
        const needed = length + chunk.length
        if (needed > limit) throw tooLarge(limit)
        if (needed > bytes.length) bytes = grow(bytes, needed, declaredBytes ?? limit, held)
        chunk.copy(bytes, length)
        length = needed
      } catch (error) {
        end(error as Error)
      }
    }
    if (declaredBytes !== undefined && declaredBytes > limit) return end(tooLarge(limit))
    stream.on('data', add).on('end', end).on('error', broken).on('close', broken)
  })
}

/** The bytes in a larger buffer. It doubles, so that a body is copied twice at most. */
function grow(bytes: Buffer, needed: number, max: number, held: HeldBytes): Buffer {
  const capacity = Math.max(needed, Math.min(2 * bytes.length, max))
  held.add(capacity - bytes.length)
  const larger = Buffer.allocUnsafeSlow(capacity)
  bytes.copy(larger)
  return larger
}

function tooLarge(limit: number): ServiceError {
  const most = limit < mebibyte ? `${limit / kibibyte} KiB` : `${limit / mebibyte} MiB`
  return new ServiceError('payload_too_large', `the body is larger than ${most}, the maximum of this call`)
}
