import { COMPILE_CACHE } from '@licensing/local-servers/node-process'

/** The environment for a program that a test runs as a command, without settings of the caller. */
export function commandEnvironment(): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', ...COMPILE_CACHE }
}
