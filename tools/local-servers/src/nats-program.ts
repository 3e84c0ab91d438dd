import { execFile } from 'node:child_process'
import { access, constants, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { homedir, userInfo } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

const DOCKER_IMAGE = 'nats:2.10-alpine'

/** How nats-server runs on this machine: as a program, or in a container. */
export type NatsProgram = Program | { kind: 'docker'; image: string; hasSyncInterval: true }

interface Program {
  kind: 'program'
  path: string
  /** Whether `sync_interval` exists, which sets how soon a message is on disk: from version 2.10 on. */
  hasSyncInterval: boolean
}

/**
 * Finds nats-server 2.9 or newer: on the PATH, else in the package of Debian or Ubuntu, which it unpacks into the cache
 * (`$XDG_CACHE_HOME/licensing`) without root rights, else as a Docker image.
 *
 * @throws if none of these works, with the reason for each and the remedy
 */
export async function findNatsProgram(signal?: AbortSignal): Promise<NatsProgram> {
  const refused: string[] = []
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const program = folder === '' ? undefined : await tryProgram(join(folder, 'nats-server'), refused)
    if (program !== undefined) return program
  }
  const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'licensing', 'nats-server')
  try {
    return await fetchNatsPackage(cache, refused, signal)
  } catch (error) {
    signal?.throwIfAborted()
    refused.push(error instanceof Error ? error.message : String(error))
  }
  try {
    await run('docker', ['version', '--format', '{{.Server.Version}}'], { timeout: 60_000 })
    return { kind: 'docker', image: DOCKER_IMAGE, hasSyncInterval: true }
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

const DEBIAN_KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
// The first Debian with nats-server 2.10; its program runs on Debian 12 too.
const DEBIAN_SUITE = 'trixie'

/**
 * Unpacks nats-server from the distribution's package into `cache`, without installing it, and keeps it there.
 *
 * @param refused gets the reason for each program that does not run here or is too old
 * @throws if this machine has no apt, or the mirror has no package that works
 */
async function fetchNatsPackage(cache: string, refused: string[], signal?: AbortSignal): Promise<Program> {
  const path = join(cache, 'nats-server')
  const cached = await tryProgram(path, refused)
  if (cached !== undefined) return cached
  await mkdir(cache, { recursive: true })
  let failure: unknown = new Error('the mirror has no nats-server')
  for (const source of await aptSources()) {
    const work = await mkdtemp(join(cache, 'fetch-'))
    try {
      const program = await unpackFrom(work, source, signal)
      if ((await tryProgram(program, refused)) === undefined) continue
      // Another process may fetch the same program meanwhile: it is moved into place in one step.
      await rename(program, path)
      const fetched = await tryProgram(path, refused)
      if (fetched !== undefined) return fetched
    } catch (error) {
      signal?.throwIfAborted()
      failure = error
    } finally {
      await rm(work, { recursive: true, force: true })
    }
  }
  const { stderr = '', message = String(failure) } = failure as { stderr?: string; message?: string }
  const reason = stderr.trim().split('\n').at(-1) || message
  throw new Error(`apt could not provide nats-server (${reason})`, { cause: failure })
}

/** The line of a sources.list; undefined for the machine's own sources. */
type Source = string | undefined

async function aptSources(): Promise<Source[]> {
  try {
    const { stdout } = await run('apt-get', [
      'indextargets',
      '--format',
      '$(REPO_URI)',
      'Created-By: Packages',
    ])
    await access(DEBIAN_KEYS)
    const mirror = stdout.split('\n').find((line) => line !== '' && !line.includes('-security'))
    if (mirror === undefined || !mirror.includes('debian')) return [undefined]
    return [`deb [signed-by=${DEBIAN_KEYS}] ${mirror} ${DEBIAN_SUITE} main\n`, undefined]
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === 'access') return [undefined]
    throw new Error('there is no apt-get', { cause: error })
  }
}

/** Uses separate package lists, so that it needs no root rights and does not change the machine's lists. */
async function unpackFrom(work: string, source: Source, signal: AbortSignal | undefined): Promise<string> {
  for (const folder of ['state/lists/partial', 'cache/archives/partial', 'root']) {
    await mkdir(join(work, folder), { recursive: true })
  }
  const list = join(work, 'sources.list')
  if (source !== undefined) await writeFile(list, source)
  const settings = [
    ...(source === undefined ? [] : [`Dir::Etc::sourcelist=${list}`, 'Dir::Etc::sourceparts=/dev/null']),
    `Dir::State=${join(work, 'state')}`,
    'Dir::State::status=/dev/null',
    `Dir::Cache=${join(work, 'cache')}`,
    'Acquire::Languages=none',
    'Acquire::Retries=3',
    'APT::Update::Error-Mode=any',
    `APT::Sandbox::User=${userInfo().username}`,
    'Debug::NoLocking=1',
  ].flatMap((setting) => ['-o', setting])
  const apt = (...args: string[]) =>
    run('apt-get', ['-qq', ...settings, ...args], { cwd: work, timeout: 600_000, ...(signal && { signal }) })
  await apt('update')
  await apt('download', 'nats-server')
  await run('sh', ['-c', 'dpkg -x nats-server_*.deb root'], { cwd: work })
  for (const folder of ['usr/sbin', 'usr/bin']) {
    const program = join(work, 'root', folder, 'nats-server')
    const found = await access(program).then(
      () => true,
      () => false,
    )
    if (found) return program
  }
  throw new Error(`the package in ${dirname(list)} holds no nats-server`)
}
