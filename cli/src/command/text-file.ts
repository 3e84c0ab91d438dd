import { constants, createReadStream, openSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Socket } from 'node:net'
import { decodeText, UnreadableFile } from '@licensing/csv/decode-text'
import { Refusal } from './failures.ts'

/** @throws Refusal if it cannot be read, or is not UTF-8 or UTF-16 */
export async function readTextFile(file: string): Promise<string> {
  return (await readParts(file, decodeText)).join('')
}

/**
 * Reads a file in parts.
 *
 * @throws Refusal if the file cannot be read, or if the reader refuses its content
 */
export async function readParts<Part>(
  file: string,
  reader: (pieces: AsyncIterable<Uint8Array>) => AsyncIterable<Part>,
): Promise<Part[]> {
  try {
    const parts: Part[] = []
    for await (const part of reader(await openFile(file))) parts.push(part)
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

/**
 * Opens a file for reading. A pipe, such as `<(…)` of a shell, is opened as a socket: a blocked read of a file
 * occupies a thread, and a process with such a thread cannot exit.
 */
async function openFile(file: string): Promise<AsyncIterable<Uint8Array>> {
  const found = await stat(file)
  if (found.isFile() || found.isDirectory()) return createReadStream(file)
  if (!found.isFIFO()) throw new Refusal('file_unreadable', `${file} is not a file`)
  const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  return new Socket({ fd, readable: true, writable: false })
}
