import { findNatsProgram } from '@licensing/local-servers/nats-program'
import { freePort } from '@licensing/local-servers/ports'
import { startServerProcess } from '@licensing/local-servers/server-process'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { connect } from 'nats'
import { expect, test } from 'vitest'

const compose = fileURLToPath(new URL('../../../deploy/compose', import.meta.url))
const program = await findNatsProgram()

/** The secrets that make-secrets writes for a component. */
async function secretsOf(folder: string, component: string): Promise<Record<string, string>> {
  const text = await readFile(join(folder, component, 'env'), 'utf8')
  const pairs = text.split('\n').map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string])
  return Object.fromEntries(pairs.filter(([name]) => name !== ''))
}

/** Runs make-secrets with a folder in place of /secrets. */
async function makeSecrets(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  await promisify(execFile)(join(compose, 'make-secrets'), { env: { ...process.env, SECRETS_DIR: folder } })
}

test.skipIf(program.kind === 'docker')(
  'NATS with the configuration of compose accepts each service with its secret',
  async () => {
    await using folder = await makeTemporaryFolder()
    const store = join(folder.path, 'store')
    const secrets = join(folder.path, 'secrets')
    await makeSecrets(secrets)
    const first = await secretsOf(secrets, 'notifier')
    await makeSecrets(secrets)
    expect(await secretsOf(secrets, 'notifier')).toEqual(first)

    const port = await freePort()
    const configuration = join(folder.path, 'nats.conf')
    const text = await readFile(join(compose, 'nats.conf'), 'utf8')
    await writeFile(configuration, text.replace('/data', store).replace(/^http_port.*$/m, ''))
    await copyFile(join(compose, 'nats-accounts.conf'), join(folder.path, 'nats-accounts.conf'))
    await using server = await startServerProcess({
      command: program.kind === 'program' ? program.path : 'nats-server',
      args: ['--config', configuration, '-a', '127.0.0.1', '-p', String(port)],
      env: {
        PATH: process.env['PATH'] ?? '',
        ...(await secretsOf(secrets, 'nats')),
      },
      logFile: join(folder.path, 'nats.log'),
      stopSignal: 'SIGTERM',
    }).then((started) => ({ ...started, [Symbol.asyncDispose]: () => started.stop() }))
    const enter = async (user: string) =>
      connect({
        servers: `127.0.0.1:${port}`,
        user,
        pass: (await secretsOf(secrets, user))['NATS_PASSWORD']!,
        reconnect: false,
      })
    const notifier = await eventually(() => enter('notifier'))
    await expect(notifier.request('events.licensing.0', '')).rejects.toMatchObject({
      code: 'PERMISSIONS_VIOLATION',
    })
    await notifier.close()
    for (const user of ['catalog', 'licensing', 'billing']) await (await enter(user)).close()
    await expect(connect({ servers: `127.0.0.1:${port}`, reconnect: false })).rejects.toMatchObject({
      code: 'AUTHORIZATION_VIOLATION',
    })
    expect(server.endedBy()).toBeUndefined()
  },
)

test.skipIf(program.kind === 'docker').each(['nats.conf', 'nats-cluster.conf'])(
  'NATS finds nothing to complain about in %s',
  async (name) => {
    await using folder = await makeTemporaryFolder()
    const secrets = join(folder.path, 'secrets')
    await makeSecrets(secrets)
    const command = program.kind === 'program' ? program.path : 'nats-server'
    const env = { PATH: process.env['PATH'] ?? '', HOSTNAME: 'nats-1', ...(await secretsOf(secrets, 'nats')) }
    // Warnings make this command fail too.
    await promisify(execFile)(command, ['-t', '-c', join(compose, name)], { env })
  },
)
