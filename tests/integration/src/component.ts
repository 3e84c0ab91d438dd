import { freePort } from '@licensing/local-servers/ports'
import { newEncryptionKey } from '@licensing/local-servers/secrets'
import type { DatabaseService } from '@licensing/local-servers/services'
import { createTestDatabase } from '@licensing/test-support/database'
import { startService } from '@licensing/test-support/process'
import type { TestProcess } from '@licensing/test-support/test-process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { Servers } from './engine.ts'

export interface Component extends AsyncDisposable {
  readonly process: TestProcess
  /** Where it serves gRPC. */
  readonly address: string
}

/** A service by itself, with a database of its own and NATS; `peers` says where it finds the others. */
export async function startComponent(
  service: DatabaseService,
  servers: Servers,
  peers: Record<string, string>,
): Promise<Component> {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const database = started.use(await createTestDatabase(servers.postgresUrl))
  const address = `127.0.0.1:${await freePort()}`
  const process = started.use(
    await startService(
      service,
      {
        GRPC_ADDRESS: address,
        METRICS_ADDRESS: `127.0.0.1:${await freePort()}`,
        DATABASE_URL: database.url,
        NATS_URL: servers.natsUrlOf(service),
        ENCRYPTION_KEY: newEncryptionKey(),
        ...peers,
      },
      folder.path,
    ),
  )
  const running = started.move()
  return { process, address, [Symbol.asyncDispose]: () => running.disposeAsync() }
}
