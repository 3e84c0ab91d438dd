import { readFile } from 'node:fs/promises'
import { Refusal } from './failures.ts'

/** @throws Refusal where it cannot be read */
export async function readTextFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    throw new Refusal('file_unreadable', `${file} cannot be read (${code})`)
  }
}
