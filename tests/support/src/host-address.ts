import { docker } from './docker.ts'

/** What calls a server of a test: the stack's processes on this machine, or its containers. */
export type Caller = 'processes' | 'containers'

/** Of `startStack`. */
const stackRunsOn = (): Caller => (process.env['TEST_COMPOSE'] ? 'containers' : 'processes')

/** Where a server of a test listens so that the stack reaches it; containers do at the bridge of their engine. */
export async function hostAddress(caller: Caller = stackRunsOn()): Promise<string> {
  if (caller === 'processes') return '127.0.0.1'
  // An engine that has just made its bridge names the network alone: the bridge has its first address.
  const format = '{{with index .IPAM.Config 0}}{{or .Gateway .Subnet}}{{end}}'
  const address = await docker(['network', 'inspect', 'bridge', '--format', format])
  return address.replace(/\.0\/\d+$/, '.1')
}

/** The name of that address. */
export function hostName(caller: Caller = stackRunsOn()): string {
  return caller === 'processes' ? 'localhost' : 'host.docker.internal'
}
