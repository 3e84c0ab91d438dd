import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

// A small young generation that fills soon, and an old generation that is not collected during the measurement.
const flags = ['--expose-gc', '--max-semi-space-size=4', '--initial-old-space-size=2000']

/**
 * The bytes that an operation leaves in the old generation of V8's heap each time. Garbage there stays until the whole heap is
 * collected, which blocks the process for some 30 ms.
 *
 * @param given TypeScript that declares the function `operation`, and `end` if something must be closed
 * @param from folder of that TypeScript, for its imports
 * @throws Error with its output if it fails
 */
export async function oldBytesOf(options: { given: string; from: string; times: number }): Promise<number> {
  const { given, from, times } = options
  const script = `
    ${given}
    const { getHeapSpaceStatistics } = await import('node:v8')
    const oldBytes = () => getHeapSpaceStatistics().find((each) => each.space_name === 'old_space').space_used_size
    const run = async (times) => { for (let n = 0; n < times; n += 1) await operation() }
    await run(${times / 10})
    gc()
    const before = oldBytes()
    await run(${times})
    const after = oldBytes()
    if (typeof end === 'function') await end()
    console.log((after - before) / ${times})
    process.exit()`
  const args = [...flags, '--input-type=module-typescript', '--eval', script]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: from })
  return Number(stdout)
}
