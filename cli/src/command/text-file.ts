import { createReadStream } from 'node:fs'
import { decodeText, UnreadableFile } from '@licensing/csv/decode-text'
import { Refusal } from './failures.ts'

/** @throws Refusal if it cannot be read, or is not UTF-8 or UTF-16 */
export async function readTextFile(file: string): Promise<string> {
  return (await readParts(file, decodeText)).join('')
}

/**
 * Reads a file in parts.
 *
 * @throws Refusal if the file cannot be read, or the reader does not take it
 */
export async function readParts<Part>(
  file: string,
  reader: (pieces: AsyncIterable<Uint8Array>) => AsyncIterable<Part>,
): Promise<Part[]> {
  try {
    const parts: Part[] = []
    for await (const part of reader(createReadStream(file))) parts.push(part)
    return parts
  } catch (error) {
    if (error instanceof UnreadableFile) {
      const place = error.line === undefined ? file : `${file}:${error.line}`
      throw new Refusal('invalid_file', `${place}: ${error.message}`)
    }
    if (!(error instanceof Error) || !('code' in error)) throw error
    throw new Refusal('file_unreadable', `${file} cannot be read (${String(error.code)})`)
  }
}
