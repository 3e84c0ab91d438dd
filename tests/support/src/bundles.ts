import { CHECKOUT, type ServiceName } from '@licensing/local-servers/services'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * Builds the bundles of all services, as in their images, in a folder for `startService`. A process of a bundle starts with
 * two thirds of the CPU time of a process of the sources, and a run of all tests starts hundreds.
 */
export async function makeBundles(folder: string): Promise<void> {
  const args = ['deploy/images/src/bundle.ts', '--to', folder]
  await promisify(execFile)(process.execPath, args, { cwd: CHECKOUT })
}

/** The program of a service in a folder of bundles. */
export function mainIn(folder: string, service: ServiceName): string {
  return join(folder, service, 'dist/src/main.mjs')
}

/** The environment for processes of bundles. Compiled code is cached in the folder. There are no source maps, which would take a quarter of a start. */
export function bundleEnvironment(folder: string): Record<string, string> {
  return { NODE_COMPILE_CACHE: join(folder, 'compiled') }
}
