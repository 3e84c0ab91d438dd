import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'

// Prints the third-party images, with the digests that the registry currently has for their tags, as lines for deploy/.env.
// If the registry does not answer, it prints nothing and exits 1.
const tags = {
  NODE_IMAGE: process.env['NODE_IMAGE'] ?? 'node:26-slim',
  POSTGRES_IMAGE: process.env['POSTGRES_IMAGE'] ?? 'postgres:17-alpine',
  NATS_IMAGE: process.env['NATS_IMAGE'] ?? 'nats:2.10-alpine',
}

try {
  const lines = await Promise.all(
    Object.entries(tags).map(async ([name, image]) => `${name}=${await pinned(image)}\n`),
  )
  process.stdout.write(lines.join(''))
} catch (error) {
  const { stderr = '', message } = error as { stderr?: string; message: string }
  process.stderr.write(`no digests: ${stderr.trim() || message}\n`)
  process.exitCode = 1
}

/** An image with the digest of its index, which is the same on every platform. */
async function pinned(image: string): Promise<string> {
  const [tag = image] = image.split('@')
  const { stdout } = await promisify(execFile)('docker', ['buildx', 'imagetools', 'inspect', '--raw', tag], {
    encoding: 'buffer',
    timeout: 60_000,
  }).catch((error: { stderr?: Buffer; message: string }) => {
    throw Object.assign(new Error(error.message), { stderr: `${tag}: ${String(error.stderr ?? '')}` })
  })
  return `${tag}@sha256:${createHash('sha256').update(stdout).digest('hex')}`
}
