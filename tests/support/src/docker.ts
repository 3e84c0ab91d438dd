import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/**
 * Runs a command of the container engine and returns its output.
 *
 * @param environment variables in addition to those that the command itself needs
 */
export async function docker(args: string[], environment: Record<string, string> = {}): Promise<string> {
  const { PATH = '', HOME = '', DOCKER_HOST, DOCKER_CONTEXT } = process.env
  const env = { PATH, HOME, DOCKER_HOST, DOCKER_CONTEXT, ...environment }
  const { stdout } = await promisify(execFile)('docker', args, { env, maxBuffer: 64 * 1024 * 1024 })
  return stdout.trim()
}

/** A field of a container, by a template of the engine. */
export async function inspect(container: string, template: string): Promise<string> {
  return docker(['container', 'inspect', '--format', template, container])
}

/** The address of a container in one of its networks; empty if it does not run. */
export async function addressOf(container: string): Promise<string> {
  const addresses = await inspect(container, '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}')
  return addresses.trim().split(' ')[0] ?? ''
}

/** The port of this machine on which a container's port is published. */
export async function portOf(container: string, port: number): Promise<number> {
  return Number(
    await inspect(container, `{{(index (index .NetworkSettings.Ports "${port}/tcp") 0).HostPort}}`),
  )
}

/** The callers of a test's server: the stack's processes on this machine, or its containers. */
export type Caller = 'processes' | 'containers'

/** How `startStack` runs the stack. */
const stackRunsOn = (): Caller => (process.env['TEST_COMPOSE'] ? 'containers' : 'processes')

/** The address on which a test's server must listen so that the stack can reach it. Containers use the engine's bridge. */
export async function hostAddress(caller: Caller = stackRunsOn()): Promise<string> {
  if (caller === 'processes') return '127.0.0.1'
  // An engine that has just created its bridge returns only the network. The bridge has its first address.
  const format = '{{with index .IPAM.Config 0}}{{or .Gateway .Subnet}}{{end}}'
  const address = await docker(['network', 'inspect', 'bridge', '--format', format])
  return address.replace(/\.0\/\d+$/, '.1')
}

/** The host name of that address. */
export function hostName(caller: Caller = stackRunsOn()): string {
  return caller === 'processes' ? 'localhost' : 'host.docker.internal'
}
