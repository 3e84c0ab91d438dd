import { ServiceError } from '@licensing/grpc/errors'
import { Readable } from 'node:stream'

// An answer has up to 1.3 MB, which a gateway holds while its caller reads. The longest sums of bytes that are held:
const maxBytes = 40 * 1024 * 1024
const maxBytesPerApplication = maxBytes / 2
const maxBytesPerCaller = maxBytes / 8
// Shorter answers are not counted.
const chunkBytes = 64 * 1024
// If a caller does not read a chunk in this time, its answer is aborted, so that another one can be sent.
const maxChunkMs = 30_000

const sending: (Caller & { bytes: number })[] = []

interface Caller {
  caller: string
  applicationId: string
}

/**
 * Sends a long answer as fast as the caller reads. How much is held at a time is limited in total, per application and per
 * caller. Further requests are refused with `unavailable`.
 */
export function sendInChunks(caller: Caller, json: Buffer): Buffer | Readable {
  if (json.length <= chunkBytes) return json
  const receiver = { ...caller, bytes: json.length }
  const held = (by: (other: typeof receiver) => boolean) =>
    sending.filter(by).reduce((sum, { bytes }) => sum + bytes, receiver.bytes)
  if (
    held(() => true) > maxBytes ||
    held(({ applicationId }) => applicationId === receiver.applicationId) > maxBytesPerApplication ||
    held(({ caller }) => caller === receiver.caller) > maxBytesPerCaller
  ) {
    throw new ServiceError('unavailable', 'too many long revocation lists are being sent: try again')
  }
  sending.push(receiver)
  const stream = Readable.from(chunksOf(json, () => idle.refresh()))
  const idle = setTimeout(() => stream.destroy(new Error('the caller reads too slowly')), maxChunkMs)
  stream.once('close', () => {
    clearTimeout(idle)
    sending.splice(sending.indexOf(receiver), 1)
  })
  return stream
}

function* chunksOf(bytes: Buffer, taken: () => void): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    yield bytes.subarray(at, at + chunkBytes)
    taken()
  }
}
