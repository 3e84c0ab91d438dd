import { join } from 'node:path'
import {
  IDENTITY_PROVIDER_MAIN,
  identityProviderEnvironment,
} from '@licensing/local-servers/identity-provider'
import { startNode, untilReady } from '@licensing/local-servers/node-process'
import { makeTemporaryFolder } from './temporary-folder.ts'

export { identityProviderSettings } from '@licensing/local-servers/identity-provider'

/**
 * Starts the identity provider of `npm start` as a process. Its gateway has the settings of `identityProviderSettings(address)`.
 *
 * @param address host:port to listen on
 */
export async function startIdentityProvider(address: string, gatewayUrl: string): Promise<AsyncDisposable> {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const env = { PATH: process.env['PATH'] ?? '', ...identityProviderEnvironment(address, gatewayUrl) }
  const name = 'identity-provider'
  const node = await startNode(name, IDENTITY_PROVIDER_MAIN, env, join(folder.path, `${name}.log`))
  started.defer(() => node.server.stop())
  await untilReady(node, `http://${address}/healthz`, 30_000)
  return started.move()
}
