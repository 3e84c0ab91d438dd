import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The command that runs nats-server out of an image until it gets SIGTERM, its streams kept in `store`. */
export function dockerNats(
  image: string,
  container: string,
  port: number,
  store: string,
  config: string,
): { command: string; args: string[] } {
  const options = ['--rm', '--name', container, '-p', `127.0.0.1:${port}:4222`, '-v', `${store}:/data`]
  const mountedConfig = ['-v', `${config}:/nats-server.conf:ro`]
  return {
    command: 'docker',
    args: [
      'run',
      ...options,
      ...mountedConfig,
      image,
      '-js',
      '-sd',
      '/data',
      '-n',
      container,
      '-c',
      '/nats-server.conf',
    ],
  }
}

/** Kills the container, if it is there. */
export async function removeContainer(container: string): Promise<void> {
  await run('docker', ['rm', '-f', container], { timeout: 30_000 }).catch(() => undefined)
}
