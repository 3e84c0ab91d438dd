import { networkInterfaces } from 'node:os'
import { docker } from './docker.ts'

/** What calls a server of a test: the stack's processes on this machine, or its containers. */
export type Caller = 'processes' | 'containers'

/** Of `startStack`. */
const stackRunsOn = (): Caller => (process.env['TEST_COMPOSE'] ? 'containers' : 'processes')

/** Where a server of a test listens so that the stack reaches it; containers do at the bridge of their engine. */
export async function hostAddress(caller: Caller = stackRunsOn()): Promise<string> {
  if (caller === 'processes') return '127.0.0.1'
  // An engine that has just made its bridge names its interface alone.
  const format = '{{(index .IPAM.Config 0).Gateway}}|{{index .Options "com.docker.network.bridge.name"}}'
  const [gateway, bridge] = (await docker(['network', 'inspect', 'bridge', '--format', format])).split('|')
  const own = networkInterfaces()[bridge ?? '']?.find(({ family }) => family === 'IPv4')?.address
  const address = gateway || own
  if (!address) throw new Error('the container engine does not name the address of its bridge')
  return address
}

/** The name of that address. */
export function hostName(caller: Caller = stackRunsOn()): string {
  return caller === 'processes' ? 'localhost' : 'host.docker.internal'
}
