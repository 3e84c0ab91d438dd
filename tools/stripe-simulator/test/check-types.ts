import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export type Typed = {
  /** A type of `objects/wire.ts`, such as `ObjectOf['charge']`. */
  type: string
  value: unknown
}

const wire = fileURLToPath(new URL('../src/objects/wire.ts', import.meta.url))
const root = fileURLToPath(new URL('..', import.meta.url))
const compiler = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url))

/**
 * Lets the compiler check each value, as a literal, against the official client's type of that name: no member may be
 * missing, unknown, of another type, null without being declared so, or have an undocumented value.
 *
 * @returns the compiler's errors for each value, in the same order
 */
export async function checkTypes(values: Typed[]): Promise<string[][]> {
  const folder = await mkdtemp(join(tmpdir(), 'stripe-types-'))
  try {
    // One value per line, so that the line of an error identifies the value.
    const lines = values.map(
      ({ type, value }, index) => `export const v${index} = ${JSON.stringify(value)} satisfies ${type}`,
    )
    const header = `import type { EventOf, ObjectOf } from ${JSON.stringify(wire)}`
    await writeFile(join(folder, 'values.mts'), [header, ...lines].join('\n'))
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(configuration()))
    const output = await compile(folder)
    const complaints = [...output.matchAll(/values\.mts\((\d+),\d+\): error (.*)/g)]
    // Any other error, such as a missing file, must not look like a check without errors.
    const other = output.split('\n').find((line) => /error/.test(line) && !line.includes('values.mts('))
    if (other !== undefined) throw new Error(`the types could not be compared: ${other}`)
    return values.map((_value, index) =>
      complaints.filter(([, line]) => Number(line) === index + 2).map(([, , complaint = '']) => complaint),
    )
  } finally {
    await rm(folder, { recursive: true })
  }
}

function configuration(): object {
  return {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: { types: [], noUnusedLocals: false },
    include: ['values.mts'],
    exclude: [],
  }
}

async function compile(folder: string): Promise<string> {
  try {
    await promisify(execFile)(process.execPath, [compiler, '-p', folder, '--pretty', 'false'], {
      maxBuffer: 64 * 1024 * 1024,
    })
    return ''
  } catch (error) {
    if (error instanceof Error && 'stdout' in error && typeof error.stdout === 'string') return error.stdout
    throw error
  }
}
