import type { Stack } from '@licensing/test-support/stack-shape'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * With `--profile`, restarts these services of the stack with V8's profiler, which slows them: do not compare the figures of
 * such a run.
 *
 * @returns a function that stops them, which writes their profiles, and prints the folder
 */
export async function startProfiling(
  stack: Stack,
  services: readonly ('gateway' | 'licensing')[],
): Promise<() => Promise<void>> {
  if (!process.argv.includes('--profile')) return () => Promise.resolve()
  const folder = await mkdtemp(join(tmpdir(), 'licensing-profiles-'))
  const watched = services.flatMap((service) => stack.processes[service])
  for (const service of watched) {
    await service.start({ NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${folder}/${service.name}` })
  }
  return async () => {
    for (const service of watched) await service.stop()
    process.stdout.write(`CPU profiles, for the browser's developer tools: ${folder}\n`)
  }
}
