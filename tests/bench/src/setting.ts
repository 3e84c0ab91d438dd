import { startPostgres } from '@licensing/local-servers/postgres'
import { startService } from '@licensing/test-support/process'
import type { TestProcess } from '@licensing/test-support/test-process'
import { startStack } from '@licensing/test-support/stack'
import type { Stack, StackOptions } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { freePort } from '@licensing/local-servers/ports'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { under } from './report.ts'
import type { Figure } from './report.ts'

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
  // As in deploy/kubernetes. With 256 MiB and 1,000,000 licences an archive takes 50 % longer, because PostgreSQL has to write
  // pages to the disk before it can read others.
  const settings = { shared_buffers: '1GB' }
  const postgres = started.use(
    await startPostgres({ dataDir: `${folder.path}/postgres`, durable: true, settings }),
  )
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
    const program = spawn(process.execPath, [fileURLToPath(new URL(file, import.meta.url)), ...rest], {
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

const maxMiB = 250

/** Reads the resident memory of every process of a stack each second, and keeps the peaks. */
export function watchMemory(stack: Stack): { figures: () => Figure[] } & Disposable {
  const peaks = new Map<string, number>()
  const look = async () => {
    for (const { name, pid } of Object.values(stack.processes).flat()) {
      const status = await readFile(`/proc/${pid}/status`, 'utf8')
      const size = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
      peaks.set(name, Math.max(peaks.get(name) ?? 0, size))
    }
  }
  // If a process is just restarting, the next interval reads it.
  const timer = setInterval(() => void look().catch(() => undefined), 1_000)
  return {
    figures: () => [...peaks].map(([name, size]) => under(`resident memory, ${name}`, size, 'MiB', maxMiB)),
    [Symbol.dispose]: () => clearInterval(timer),
  }
}
