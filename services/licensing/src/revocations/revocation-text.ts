import { sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { algorithm } from '../signing-keys/new-signing-key.ts'
import { entryBytes, segmentsOf } from './revocation-entries.ts'
import type { Range, RevocationEntries } from './revocation-entries.ts'
import { listLifeSeconds } from '../signing-keys/signing-keys.ts'

/** The signed part: the licences of the versions after `start` and up to `end`. */
export interface UnsignedList {
  applicationId: string
  /** The start that the list states; null for the whole list. */
  since: number | null
  start: number
  end: number
  /** Seconds since the epoch. */
  issuedAt: number
  kid: string
}

type Piece = { text: string } | { range: Range; encoded: boolean }

// A longer answer is sent in parts. The gateway holds only a few parts for each caller.
const maxWholeBytes = 1024 * 1024
const maxPartBytes = 256 * 1024

const base64 = (text: string) => Buffer.from(text).toString('base64url')

/**
 * The payload before and after its entries. The text before is padded with spaces to a multiple of three bytes, like the
 * entries. So the base64 of a list is made piece by piece, and a whole list is in memory only to be signed.
 */
function payloadAround({ applicationId, since, end, issuedAt }: UnsignedList) {
  const before = `{"app_id":"${applicationId}","version":${end},"since":${since},"revoked":[`
  return {
    before: before.padEnd(Math.ceil(before.length / 3) * 3),
    after: `],"iat":${issuedAt},"exp":${issuedAt + listLifeSeconds}}`,
  }
}

const headerOf = ({ kid }: UnsignedList) => base64(JSON.stringify({ alg: algorithm, kid }))

const encodedRanges = ({ start, end }: UnsignedList): Piece[] =>
  segmentsOf(start, end).map((range) => ({ range, encoded: true }))

/** The pieces of an answer, `{version, revoked, signature}`. `revoked` contains the versions after `from`. */
function piecesOf(list: UnsignedList, signature: string, from: number): Piece[] {
  const { before, after } = payloadAround(list)
  return [
    { text: `{"version":${list.end},"revoked":[` },
    ...segmentsOf(from, list.end).map((range) => ({ range, encoded: false })),
    { text: `],"signature":"${headerOf(list)}.${base64(before)}` },
    ...encodedRanges(list),
    { text: `${base64(after)}.${signature}"}` },
  ]
}

const sizeOf = (piece: Piece) =>
  'text' in piece
    ? piece.text.length
    : (piece.range.to - piece.range.from) * (piece.encoded ? (entryBytes * 4) / 3 : entryBytes)

/** An answer in parts of limited size, the same on every replica. */
export function partsOf(list: UnsignedList, signature: string, from: number): Piece[][] {
  const pieces = piecesOf(list, signature, from)
  if (pieces.reduce((sum, piece) => sum + sizeOf(piece), 0) <= maxWholeBytes) return [pieces]
  const parts: Piece[][] = [[]]
  let bytes = 0
  for (const piece of pieces) {
    const size = sizeOf(piece)
    if (bytes + size > maxPartBytes) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)!.push(piece)
    bytes += size
  }
  return parts
}

/** The text of pieces of a list. */
export async function textOf(
  entries: RevocationEntries,
  { applicationId, end }: UnsignedList,
  pieces: Piece[],
): Promise<Buffer> {
  const bytes = await Promise.all(
    pieces.map(async (piece) => {
      if ('text' in piece) return Buffer.from(piece.text)
      let json = await entries(applicationId, piece.range)
      if (piece.range.to === end) {
        // Replaces the comma after the last entry with a space.
        json = Buffer.from(json)
        json.write(' ', json.length - 1)
      }
      return piece.encoded ? Buffer.from(json.toString('base64url'), 'latin1') : json
    }),
  )
  return bytes.length === 1 ? bytes[0]! : Buffer.concat(bytes)
}

const signAsync = promisify<null, Buffer, KeyObject, Buffer>(sign)

/** Signs a list (RFC 7515, compact serialization). @returns the signature, base64url */
export async function signatureOf(
  entries: RevocationEntries,
  list: UnsignedList,
  key: KeyObject,
): Promise<string> {
  const { before, after } = payloadAround(list)
  const pieces: Piece[] = [
    { text: `${headerOf(list)}.${base64(before)}` },
    ...encodedRanges(list),
    { text: base64(after) },
  ]
  const message = Buffer.allocUnsafeSlow(pieces.reduce((sum, piece) => sum + sizeOf(piece), 0))
  let at = 0
  for (const piece of pieces) {
    at += (await textOf(entries, list, [piece])).copy(message, at)
    // Lets other calls run between two segments.
    if (piece !== pieces.at(-1)) await setImmediate()
  }
  const signature = await signAsync(null, message, key)
  // Frees the memory now: the garbage collector would run only after several more lists of 46 MB.
  message.buffer.transfer(0)
  return signature.toString('base64url')
}
