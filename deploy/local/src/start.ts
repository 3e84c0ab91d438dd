import { ensurePacked } from '@licensing/downloads/build'
import { ensureGuides } from '@licensing/guides/build'
import { ensureBuilt } from '@licensing/portal/build'
import { announcement, readyLine } from './announce.ts'
import { takeDataFolder } from './data-folder.ts'
import { startStack } from './stack.ts'
import { readStartSettings } from './start-settings.ts'
import { Waits } from './waits.ts'

const startedAt = Date.now()
const stopping = new AbortController()
const { signal } = stopping
const stopped = Promise.withResolvers<void>()
signal.addEventListener('abort', () => stopped.resolve())

// The terminal sends a signal to this process, and npm passes the same signal on. Signals after the first have no effect.
for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(name, () => {
    if (!signal.aborted) say('stopping')
    stopping.abort()
  })
}
// Gateway and services may run in this process. An unexpected error in any of them ends npm start, so that the stack does not
// continue without this service.
for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, (error: unknown) => {
    process.stderr.write(`\nnpm start ends after a defect (${event}): ${describe(error)}\n`)
    process.exitCode = 1
    stopping.abort()
  })
}
// The stack continues if the reader of its output has ended.
process.stdout.on('error', () => undefined)
process.stderr.on('error', () => undefined)

// Child processes and servers do not keep this process alive, so this timer does.
const alive = setInterval(() => undefined, 60_000)
try {
  await run()
} catch (error) {
  if (!signal.aborted) {
    process.stderr.write(`\nnpm start failed: ${describe(error)}\n`)
    process.exitCode = 1
  }
}
clearInterval(alive)
process.exit()

async function run(): Promise<void> {
  const settings = readStartSettings(process.env)
  await using started = new AsyncDisposableStack()
  using waits = new Waits(say)
  const folder = started.use(
    await waits.during(`the folder ${settings.dataDir}`, takeDataFolder(settings.dataDir, say)),
  )
  const failed = new AbortController()
  const { builds, guides } = startBuilds(waits, AbortSignal.any([signal, failed.signal]))
  started.defer(async () => {
    failed.abort()
    await Promise.all([builds, guides])
  })
  const stack = await startStack(settings, folder, started, { say, waits, signal })
  await builds
  const { gateway } = stack
  await folder.publish({ ...stack, pid: process.pid })
  process.stdout.write(announcement(stack, folder.logs, await hasPortal(gateway)))
  process.stdout.write(readyLine(stack))
  // Keeps the process alive if nobody reads its output.
  const alive = setInterval(() => undefined, 60_000)
  await stopped.promise
  clearInterval(alive)
}

/**
 * Builds the portal, the packages and the guides if their sources have changed. Everything else works without them. Guides
 * take the longest, so the start does not wait for them, only a request for a guide does.
 */
function startBuilds(waits: Waits, signal: AbortSignal): { builds: Promise<unknown>; guides: Promise<void> } {
  const build = async (what: string, make: () => Promise<void>) => {
    try {
      await waits.during(what, make())
    } catch (error) {
      if (!signal.aborted) say(`could not build ${what}: ${describe(error)}`)
    }
  }
  const builds = Promise.all([
    build('the portal', () => ensureBuilt(say, signal)),
    build('the packages', () => ensurePacked(say, signal)),
  ])
  return { builds, guides: build('the guides', () => ensureGuides(say, signal)) }
}

async function hasPortal(gateway: string): Promise<boolean> {
  const page = fetch(`${gateway}/portal`, { signal: AbortSignal.timeout(60_000) })
  const response = await page.catch(() => undefined)
  await response?.body?.cancel()
  return response?.ok === true
}

function say(line: string): void {
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(1)
  process.stderr.write(`[${seconds.padStart(5)} s] ${line}\n`)
}

/** An error for people needs only its message; any other is printed with its stack. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const known = ['Error', 'DatabaseSetupError', 'NotReadyError'].includes(error.name)
  return known ? error.message : (error.stack ?? error.message)
}
