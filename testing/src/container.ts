import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Container {
  /** URL of the container's only port, without a slash at the end. */
  readonly url: string
  stop(): Promise<void>
}

/**
 * Starts the image with its port published on a free port of the loopback address, and returns when it prints its
 * ready line. The container stops when this process ends, even after a crash, because it watches its standard input.
 */
export async function runContainer(
  image: string,
  environment: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<Container> {
  const name = `licensing-${randomBytes(6).toString('hex')}`
  const variables = { ...environment, STOP_WITH_PARENT: '1' }
  const settings = Object.keys(variables).flatMap((variable) => ['--env', variable])
  const args = ['run', '--rm', '--init', '--interactive', '--name', name, '--publish', '127.0.0.1::8080']
  const child = spawn('docker', [...args, ...settings, image], {
    env: { ...process.env, ...variables },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4_000)))
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`docker could not be run: ${error.message}`))
    child.once('close', (code) => resolve(`the container ended (${code})`))
  })
  const stop = async () => {
    child.stdin.end()
    await ended
  }
  const isReady = (async () => {
    for await (const line of createInterface(child.stdout)) if (line.startsWith('ready ')) return undefined
    return ended
  })()
  const late = new Promise<string>((resolve) => {
    setTimeout(() => resolve(`it was not ready within ${timeoutMs / 1000} s`), timeoutMs).unref()
  })
  const problem = await Promise.race([isReady, ended, late])
  if (problem !== undefined) {
    await stop()
    throw new Error(`${image} did not start: ${problem}\n${said}`)
  }
  child.stdout.resume()
  const { stdout } = await run('docker', ['port', name, '8080/tcp'])
  const port = /:(\d+)\s*$/m.exec(stdout)?.[1]
  return { url: `http://127.0.0.1:${port}`, stop }
}
