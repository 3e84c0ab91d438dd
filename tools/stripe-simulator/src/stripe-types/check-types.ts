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

const wire = fileURLToPath(new URL('../objects/wire.ts', import.meta.url))
const root = fileURLToPath(new URL('../..', import.meta.url))
const compiler = fileURLToPath(new URL('../../../../node_modules/typescript/bin/tsc', import.meta.url))

/**
 * Has the compiler hold each value, as a literal, against the official client's declaration of what it claims to be:
 * no member may be missing, unknown, of another type, null without being declared so, or of an undocumented value.
 * Returns the compiler's errors about each value, in order; an empty list if the value fits.
 */
export async function checkTypes(values: Typed[]): Promise<string[][]> {
  const folder = await mkdtemp(join(tmpdir(), 'stripe-types-'))
  try {
    // One value a line, so that a complaint's line says whose it is.
    const lines = values.map(
      ({ type, value }, index) => `export const v${index} = ${JSON.stringify(value)} satisfies ${type}`,
    )
    const header = `import type { EventOf, ObjectOf } from ${JSON.stringify(wire)}`
    await writeFile(join(folder, 'values.mts'), [header, ...lines].join('\n'))
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(configuration()))
    const output = await compile(folder)
    const complaints = [...output.matchAll(/values\.mts\((\d+),\d+\): error (.*)/g)]
    // Anything else, as a file that is not found, must not pass for a check without complaints.
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
