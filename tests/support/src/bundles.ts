import { CHECKOUT, type ServiceName } from '@licensing/local-servers/services'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * Makes what the images of all services hold, in a folder as `startService` takes it. A process of a bundle is ready
 * for two thirds of the CPU time of one that loads the sources, and a run of all tests starts hundreds.
 */
export async function makeBundles(folder: string): Promise<void> {
  const args = ['deploy/images/src/bundle.ts', '--to', folder]
  await promisify(execFile)(process.execPath, args, { cwd: CHECKOUT })
}

/** The program of a service in a folder of bundles. */
export function mainIn(folder: string, service: ServiceName): string {
  return join(folder, service, 'dist/src/main.mjs')
}

/** For processes of a folder of bundles: what is compiled stays in the folder. Source maps would take a quarter of a start. */
export function bundleEnvironment(folder: string): Record<string, string> {
  return { NODE_COMPILE_CACHE: join(folder, 'compiled') }
}
