import { readdir, readFile } from 'node:fs/promises'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TestProcess } from '@licensing/test-support/test-process'

/** Whether to profile CPU time. The profiler slows the services, so do not compare the figures of such a run. */
export const isProfiling = process.argv.includes('--profile')

const functionsShown = 25
const packagesShown = 15

interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[]
  samples: number[]
  timeDeltas: number[]
}

/**
 * Restarts these services of the stack with V8's profiler. Does nothing without `--profile`.
 *
 * @returns a function that stops them and prints self times by function and by package
 */
export async function startProfiling(
  stack: Stack,
  services: readonly ('gateway' | 'licensing')[],
): Promise<() => Promise<void>> {
  if (!isProfiling) return () => Promise.resolve()
  const folder = await makeTemporaryFolder()
  const watched = services.flatMap((service) => stack.processes[service])
  for (const service of watched) {
    await service.start({ NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${folder.path}/${service.name}` })
  }
  return async () => {
    for (const service of watched) await print(service, `${folder.path}/${service.name}`)
    await folder[Symbol.asyncDispose]()
  }
}

async function print(service: TestProcess, folder: string): Promise<void> {
  // The profile is written when the process ends.
  await service.stop()
  const [file = ''] = (await readdir(folder)).filter((name) => name.endsWith('.cpuprofile'))
  const profile = JSON.parse(await readFile(`${folder}/${file}`, 'utf8')) as CpuProfile
  const { byFunction, byPackage } = selfTimes(profile)
  process.stdout.write(`\n${service.name}: self time by package\n${table(byPackage, packagesShown)}`)
  process.stdout.write(`${service.name}: self time by function\n${table(byFunction, functionsShown)}`)
}

function selfTimes({ nodes, samples, timeDeltas }: CpuProfile) {
  const byFunction = new Map<string, number>()
  const byPackage = new Map<string, number>()
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  for (const [at, id] of samples.entries()) {
    const { functionName, url, lineNumber } = frames.get(id)!
    if (functionName === '(idle)') continue
    const owner = packageOf(url, functionName)
    const line = url === '' ? '' : ` ${url.split('/').at(-1)}:${lineNumber + 1}`
    add(byPackage, owner, timeDeltas[at]!)
    add(byFunction, `${owner}  ${functionName || '(anonymous)'}${line}`, timeDeltas[at]!)
  }
  return { byFunction, byPackage }
}

function add(times: Map<string, number>, name: string, time: number): void {
  times.set(name, (times.get(name) ?? 0) + time)
}

function packageOf(url: string, functionName: string): string {
  if (url === '') return functionName.startsWith('(') ? functionName : '(native)'
  if (url.startsWith('node:')) return 'node'
  const dependency = url.split('/node_modules/').at(-1)!
  if (dependency !== url)
    return dependency
      .split('/')
      .slice(0, dependency.startsWith('@') ? 2 : 1)
      .join('/')
  return /\/((?:packages|services)\/[^/]+|gateway|proto)\//.exec(url)?.[1] ?? url
}

function table(times: Map<string, number>, shown: number): string {
  const total = [...times.values()].reduce((sum, time) => sum + time, 0)
  return [...times]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, shown)
    .map(([name, time]) => `  ${((time / total) * 100).toFixed(1).padStart(5)} %  ${name}\n`)
    .join('')
}
