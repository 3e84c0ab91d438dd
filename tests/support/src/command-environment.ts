import { COMPILE_CACHE } from '@licensing/local-servers/node-process'

/** What a program of ours needs that a test runs as a command, and nothing of the caller's settings. */
export function commandEnvironment(): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', ...COMPILE_CACHE }
}
