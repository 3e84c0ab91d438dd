import { crc32, deflateRawSync } from 'node:zlib'

/** A file of an archive. */
export interface Entry {
  readonly path: string
  readonly content: Buffer
}

/** The first day that the format knows: archives of the same files are the same, whenever they are made. */
const DATE = 0x21
const UTF8_NAMES = 0x800
const DEFLATED = 8
const REGULAR_FILE = 0o100644

/** A ZIP archive of files. */
export function zip(entries: readonly Entry[]): Buffer {
  const files: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const { path, content } of entries) {
    const name = Buffer.from(path)
    const data = deflateRawSync(content)
    // The fields that both headers of a file have, from the flags to the length of the extra field.
    const common = fields(
      [2, UTF8_NAMES, 2, DEFLATED, 2, 0, 2, DATE],
      [4, crc32(content), 4, data.length, 4, content.length, 2, name.length, 2, 0],
    )
    const local = Buffer.concat([fields([4, 0x04034b50, 2, 20]), common, name, data])
    const attributes = fields([2, 0, 2, 0, 2, 0, 4, REGULAR_FILE * 0x10000, 4, offset])
    directory.push(Buffer.concat([fields([4, 0x02014b50, 2, 0x314, 2, 20]), common, attributes, name]))
    files.push(local)
    offset += local.length
  }
  const index = Buffer.concat(directory)
  const count = entries.length
  const end = fields([4, 0x06054b50, 2, 0, 2, 0, 2, count, 2, count, 4, index.length, 4, offset, 2, 0])
  return Buffer.concat([...files, index, end])
}

/** Unsigned integers, little-endian: pairs of a width in bytes and a value. */
function fields(...groups: readonly (readonly number[])[]): Buffer {
  const pairs = groups.flat()
  const parts: Buffer[] = []
  for (let at = 0; at < pairs.length; at += 2) {
    const part = Buffer.alloc(pairs[at]!)
    part.writeUIntLE(pairs[at + 1]!, 0, part.length)
    parts.push(part)
  }
  return Buffer.concat(parts)
}
