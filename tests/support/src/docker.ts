import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/**
 * What a command of the container engine prints.
 *
 * @param environment beside what the command itself needs of this process's
 */
export async function docker(args: string[], environment: Record<string, string> = {}): Promise<string> {
  const { PATH = '', HOME = '', DOCKER_HOST, DOCKER_CONTEXT } = process.env
  const env = { PATH, HOME, DOCKER_HOST, DOCKER_CONTEXT, ...environment }
  const { stdout } = await promisify(execFile)('docker', args, { env, maxBuffer: 64 * 1024 * 1024 })
  return stdout.trim()
}

/** One field of a container, as a template of the engine names it. */
export async function inspect(container: string, template: string): Promise<string> {
  return docker(['container', 'inspect', '--format', template, container])
}

/** The address of a container in one of its networks; an empty string while it does not run. */
export async function addressOf(container: string): Promise<string> {
  const addresses = await inspect(container, '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}')
  return addresses.trim().split(' ')[0] ?? ''
}

/** The port of this machine at which a container's port is published. */
export async function portOf(container: string, port: number): Promise<number> {
  return Number(
    await inspect(container, `{{(index (index .NetworkSettings.Ports "${port}/tcp") 0).HostPort}}`),
  )
}

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
