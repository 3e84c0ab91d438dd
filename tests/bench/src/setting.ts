import { startPostgres } from '@licensing/local-servers/postgres'
import { startService } from '@licensing/test-support/process'
import type { TestProcess } from '@licensing/test-support/test-process'
import { startStack } from '@licensing/test-support/stack'
import type { Stack, StackOptions } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { freePort } from '@licensing/local-servers/ports'
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** A whole stack on its own PostgreSQL with synced commits, and functions that start floors. */
export interface Setting extends AsyncDisposable {
  stack: Stack
  postgresUrl: string
  postgresPid: number
  /** Starts a second gateway, with an echo without a database in place of licensing. */
  echoGateway(): Promise<string>
  /** Starts the same routes with only fastify and grpc-js. */
  plainEcho(): Promise<string>
}

const unlimited = '100000000'

export async function startSetting(options: StackOptions = {}): Promise<Setting> {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const postgres = started.use(await startPostgres({ dataDir: `${folder.path}/postgres`, durable: true }))
  const stack = started.use(
    await startStack({
      ...options,
      postgresUrl: postgres.url(),
      environment: {
        LOG_LEVEL: 'warn',
        RATE_LIMIT_PER_MINUTE: unlimited,
        PRODUCT_RATE_PER_MINUTE: unlimited,
        PRODUCT_WRONG_KEYS_PER_MINUTE: unlimited,
        ...options.environment,
      },
    }),
  )
  const running = started.move()
  /** Starts a program of this folder that prints its port. */
  const startProgram = async (...args: [file: string, ...string[]]): Promise<string> => {
    const [file, ...rest] = args
    const program = spawn(process.execPath, [new URL(file, import.meta.url).pathname, ...rest], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    running.defer(async () => {
      program.kill('SIGKILL')
      await once(program, 'exit')
    })
    const [chunk] = (await once(program.stdout, 'data')) as [Buffer]
    return chunk.toString().trim()
  }
  return {
    stack,
    postgresUrl: postgres.url(),
    postgresPid: postgres.pid,
    echoGateway: async () => {
      const port = await startProgram('echo-service.ts')
      const gateway: TestProcess = running.use(
        await startService(
          'gateway',
          {
            ...stack.processes.gateway[0]!.environment,
            HTTP_ADDRESS: `127.0.0.1:${await freePort()}`,
            METRICS_ADDRESS: `127.0.0.1:${await freePort()}`,
            LICENSING_ADDRESS: `127.0.0.1:${port}`,
          },
          folder.path,
          { name: 'gateway-before-echo' },
        ),
      )
      return gateway.operationsUrl
    },
    plainEcho: async () => {
      const service = await startProgram('plain-echo.ts', 'service')
      return `http://127.0.0.1:${await startProgram('plain-echo.ts', 'gateway', service)}`
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Resident memory of each process of a stack now, in MiB. */
export async function residentMiB(stack: Stack): Promise<Record<string, number>> {
  const { readFile } = await import('node:fs/promises')
  const entries = await Promise.all(
    Object.values(stack.processes)
      .flat()
      .map(async ({ name, pid }) => {
        const status = await readFile(`/proc/${pid}/status`, 'utf8')
        return [name, Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024] as const
      }),
  )
  return Object.fromEntries(entries)
}
