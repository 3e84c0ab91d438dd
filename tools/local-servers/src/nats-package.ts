import { execFile } from 'node:child_process'
import { access, chmod, copyFile, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { withFileLock } from './file-lock.ts'

const run = promisify(execFile)

const DEBIAN_KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
// The first Debian with nats-server 2.10; its program runs on Debian 12 too.
const DEBIAN_SUITE = 'trixie'

/**
 * A nats-server out of the distribution's package, unpacked (not installed) into `cache`; kept there.
 *
 * @param tryProgram answers undefined for what does not run here or is too old
 * @throws when this machine has no apt, or its mirror no package that works
 */
export async function fetchNatsPackage<Program>(
  cache: string,
  tryProgram: (path: string) => Promise<Program | undefined>,
  signal?: AbortSignal,
): Promise<Program> {
  const path = join(cache, 'nats-server')
  const cached = await tryProgram(path)
  if (cached !== undefined) return cached
  await mkdir(cache, { recursive: true })
  return withFileLock(join(cache, 'lock'), 120_000, async () => {
    const fetchedMeanwhile = await tryProgram(path)
    if (fetchedMeanwhile !== undefined) return fetchedMeanwhile
    let failure: unknown = new Error('the mirror has no nats-server')
    for (const source of await aptSources()) {
      const work = await mkdtemp(join(cache, 'fetch-'))
      try {
        const program = await unpackFrom(work, source, signal)
        if ((await tryProgram(program)) === undefined) continue
        await copyFile(program, `${path}.new`)
        await chmod(`${path}.new`, 0o755)
        await rename(`${path}.new`, path)
        const fetched = await tryProgram(path)
        if (fetched !== undefined) return fetched
      } catch (error) {
        signal?.throwIfAborted()
        failure = error
      } finally {
        await rm(work, { recursive: true, force: true })
      }
    }
    const { stderr = '', message = String(failure) } = failure as { stderr?: string; message?: string }
    throw new Error(`apt could not provide nats-server (${stderr.trim().split('\n').at(-1) || message})`, {
      cause: failure,
    })
  })
}

/** A sources.list of one line, or undefined for the machine's own sources. */
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

/** Package lists of its own, so that no root rights are needed and nothing of the machine's changes. */
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
