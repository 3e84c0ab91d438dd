/** A file that cannot be read. The message is for the person who chose it; it begins in lower case and has no full stop. */
export class UnreadableFile extends Error {
  override readonly name = 'UnreadableFile'
  /** The line with the problem, from 1. */
  readonly line: number | undefined

  constructor(message: string, line?: number) {
    super(message)
    this.line = line
  }
}

/**
 * Decodes a file in UTF-8 or UTF-16 piece by piece, without its byte order mark. Also runs in browsers.
 *
 * @throws UnreadableFile for any other content; the message names its probable encoding or format
 */
export async function* decodeText(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  let decoding: ReturnType<typeof decodingOf> | undefined
  let line = 1
  const decode = (bytes: Uint8Array, isLast: boolean): string => {
    const { encoding, decoder } = (decoding ??= decodingOf(bytes))
    try {
      const text = decoder.decode(bytes, { stream: !isLast })
      line += newLines(text)
      return text
    } catch {
      throw notAsItBegan(encoding, bytes, line)
    }
  }
  for await (const block of blocks(pieces)) yield decode(block, false)
  yield decode(new Uint8Array(), true)
}

const BLOCK_BYTES = 65_536

/** Joins small pieces: the encoding cannot be recognized from a few bytes. */
async function* blocks(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  let pending: Uint8Array[] = []
  let size = 0
  for await (const piece of pieces) {
    pending.push(piece)
    size += piece.length
    if (size < BLOCK_BYTES) continue
    yield joined(pending, size)
    pending = []
    size = 0
  }
  if (size > 0) yield joined(pending, size)
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const all = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be'

const remedy =
  'Save it as UTF-8: in Excel as “CSV UTF-8”, in LibreOffice with the character set “Unicode (UTF-8)”, in Notepad with the encoding “UTF-8”'

const notText: readonly (readonly [bytes: readonly number[], name: string, remedy: string])[] = [
  [[0xff, 0xfe, 0, 0], 'UTF-32', remedy],
  [[0, 0, 0xfe, 0xff], 'UTF-32', remedy],
  [[0x50, 0x4b, 0x03, 0x04], 'an Excel workbook or another ZIP archive', 'Export the sheet as “CSV UTF-8”'],
  [[0xd0, 0xcf, 0x11, 0xe0], 'an Excel workbook', 'Export the sheet as “CSV UTF-8”'],
  [[0x1f, 0x8b], 'a gzip archive', 'Unpack it'],
  [[0x25, 0x50, 0x44, 0x46], 'a PDF document', 'Export the data as “CSV UTF-8”'],
]

function decodingOf(bytes: Uint8Array): { encoding: Encoding; decoder: TextDecoder } {
  for (const [begin, name, remedy] of notText) {
    if (begin.every((byte, at) => bytes[at] === byte)) {
      throw new UnreadableFile(`the file is not UTF-8 or UTF-16, it looks like ${name}. ${remedy}`)
    }
  }
  const encoding = encodingOf(bytes)
  return { encoding, decoder: new TextDecoder(encoding, { fatal: true }) }
}

function encodingOf([first, second]: Uint8Array): Encoding {
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  // Without a byte order mark, a zero byte shows UTF-16, since the first character of the header is ASCII.
  if (first && second === 0) return 'utf-16le'
  return first === 0 && second ? 'utf-16be' : 'utf-8'
}

function notAsItBegan(encoding: Encoding, bytes: Uint8Array, linesBefore: number): UnreadableFile {
  if (encoding !== 'utf-8' || bytes.length === 0) {
    const name = encoding === 'utf-8' ? 'UTF-8' : 'UTF-16'
    const cause = 'it may be cut off, or be in another encoding'
    return new UnreadableFile(`the file begins as ${name} but is not ${name} to its end: ${cause}. ${remedy}`)
  }
  // Skips the end of a character that began in the block before.
  const ownFrom = bytes.findIndex((byte) => byte < 0x80 || byte > 0xbf)
  const text = new TextDecoder().decode(bytes.subarray(Math.max(0, ownFrom)))
  const line = linesBefore + newLines(text.slice(0, Math.max(0, text.indexOf('\uFFFD'))))
  return new UnreadableFile(`the file is not UTF-8, it looks like ${guess(bytes, text)}. ${remedy}`, line)
}

/** The probable encoding, from the bytes that are not ASCII. */
function guess(bytes: Uint8Array, asUtf8: string): string {
  const [valid, broken] = [/[\u0080-\uFFFC]/g, /\uFFFD/g].map((some) => asUtf8.match(some)?.length ?? 0)
  if (valid! >= broken! && valid! > 0) return 'UTF-8 with parts in another encoding'
  let [all, letters, controls, adjacent] = [0, 0, 0, 0]
  for (const [at, byte] of bytes.entries()) {
    if (byte < 0x80) continue
    all += 1
    if (byte >= 0xc0) letters += 1
    else if (byte < 0xa0) controls += 1
    if ((bytes[at - 1] ?? 0) >= 0x80) adjacent += 1
  }
  // In European languages two letters with accents are seldom neighbours.
  if (adjacent * 2 > all) return 'the encoding of another script, such as Windows-1251, Shift_JIS or GB18030'
  return controls > letters ? 'Mac Roman or a DOS code page' : 'Windows-1252'
}

function newLines(text: string): number {
  return text.match(/\n/g)?.length ?? 0
}
