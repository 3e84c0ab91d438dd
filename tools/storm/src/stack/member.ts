import { startService } from '@licensing/test-support/process'
import type { TestProcess } from '@licensing/test-support/test-process'
import type { ServiceName } from '@licensing/local-servers/services'

/** A process of the stack: somebody's fault, or nobody's, when it is down. */
export interface Member {
  readonly name: string
  readonly operationsUrl: string
  /** Whether it should be running: false while a fault keeps it down. */
  readonly wanted: boolean
  running(): boolean
  kill(): Promise<void>
  terminate(): Promise<void>
  freeze(): void
  resume(): void
  start(): Promise<void>
  process: TestProcess
}

export async function startMember(
  service: ServiceName,
  name: string,
  environment: Record<string, string>,
  folder: string,
): Promise<Member> {
  const process = await startService(service, environment, folder, { name, waitMs: 0 })
  let wanted = true
  return {
    name,
    operationsUrl: process.operationsUrl,
    process,
    get wanted() {
      return wanted
    },
    running: () => isAlive(process.pid),
    kill: async () => {
      wanted = false
      await process.kill()
    },
    terminate: async () => {
      wanted = false
      await process.stop()
    },
    freeze: () => {
      if (isAlive(process.pid)) process.freeze()
    },
    resume: () => {
      if (isAlive(process.pid)) process.resume()
    },
    start: async () => {
      await process.start()
      wanted = true
    },
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
