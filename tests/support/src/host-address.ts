import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/**
 * Where a server of a test listens so that the stack reaches it: 127.0.0.1, or with TEST_COMPOSE this machine's
 * address on the container engine's own bridge.
 */
export async function hostAddress(): Promise<string> {
  if (!process.env['TEST_COMPOSE']) return '127.0.0.1'
  const gateway = ['--format', '{{(index .IPAM.Config 0).Gateway}}']
  const { stdout } = await promisify(execFile)('docker', ['network', 'inspect', 'bridge', ...gateway])
  return stdout.trim()
}
