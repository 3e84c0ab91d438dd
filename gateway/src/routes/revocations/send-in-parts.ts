import { ServiceError } from '@licensing/grpc/errors'
import { Readable } from 'node:stream'

interface Receiver {
  caller: string
  applicationId: string
}

// A part has a quarter of a megabyte, and one more is fetched while one is sent: some 30 MB in all.
const mostAtOnce = 32
const mostOfApplication = 16
const mostOfCaller = 4
// A caller that reads no part in this time gives its place to another.
const longestPartMs = 30_000

const sending: Receiver[] = []

/**
 * Sends an answer that is too long to be held, part by part and as fast as its caller reads. So many at a time, of each
 * application and to each caller; the others are refused with `unavailable`.
 *
 * @param part fetches a part after the first
 */
export function sendInParts(
  receiver: Receiver,
  first: Uint8Array,
  parts: number,
  part: (at: number) => Promise<Uint8Array>,
): Readable {
  const { caller, applicationId } = receiver
  if (
    sending.length >= mostAtOnce ||
    sending.filter((other) => other.applicationId === applicationId).length >= mostOfApplication ||
    sending.filter((other) => other.caller === caller).length >= mostOfCaller
  ) {
    throw new ServiceError('unavailable', 'too many long revocation lists are being sent: try again')
  }
  sending.push(receiver)
  const stream = Readable.from(inParts(first, parts, part, () => idle.refresh()))
  const idle = setTimeout(() => stream.destroy(new Error('the caller reads too slowly')), longestPartMs)
  stream.once('close', () => {
    clearTimeout(idle)
    sending.splice(sending.indexOf(receiver), 1)
  })
  return stream
}

async function* inParts(
  first: Uint8Array,
  parts: number,
  part: (at: number) => Promise<Uint8Array>,
  taken: () => void,
): AsyncGenerator<Uint8Array> {
  yield first
  for (let at = 1; at < parts; at += 1) {
    yield await part(at)
    taken()
  }
}
