import { CHECKOUT } from '@licensing/local-servers/services'
import { createHash } from 'node:crypto'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { withContainers } from './engine.ts'

const run = promisify(execFile)
const mediaType = 'application/vnd.oci.image.index.v1+json'
const index = JSON.stringify({ schemaVersion: 2, mediaType, manifests: [] })
const digest = `sha256:${createHash('sha256').update(index).digest('hex')}`

/** A registry that has the images with matching names. */
async function startRegistry(has: RegExp) {
  const server = createServer((request, response) => {
    const isKnown = has.test(request.url ?? '')
    response.writeHead(isKnown ? 200 : 404, {
      'content-type': mediaType,
      'content-length': isKnown ? index.length : 0,
      'docker-content-digest': digest,
    })
    response.end(isKnown && request.method === 'GET' ? index : undefined)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    host: `localhost:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function pin(host: string) {
  const images = {
    NODE_IMAGE: `${host}/node:26-slim@sha256:${'0'.repeat(64)}`,
    POSTGRES_IMAGE: `${host}/postgres:17-alpine`,
    NATS_IMAGE: `${host}/nats:2.10-alpine`,
  }
  return run(process.execPath, ['deploy/images/src/pin.ts'], {
    cwd: CHECKOUT,
    env: { ...process.env, ...images },
  })
}

describe.skipIf(!withContainers)('images by digest', () => {
  test('tags are pinned to their current digests in the registry', async () => {
    await using registry = await startRegistry(/^\/v2\//)
    const { host } = registry
    const { stdout } = await pin(host)
    expect(stdout.trim().split('\n')).toEqual([
      `NODE_IMAGE=${host}/node:26-slim@${digest}`,
      `POSTGRES_IMAGE=${host}/postgres:17-alpine@${digest}`,
      `NATS_IMAGE=${host}/nats:2.10-alpine@${digest}`,
    ])
  })

  test('where the registry lacks one, none is printed, and it says which', async () => {
    await using registry = await startRegistry(/^\/v2\/($|node|postgres)/)
    const failed = await pin(registry.host).catch((error: unknown) => error)
    expect(failed).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^no digests: .*\/nats:2\.10-alpine: .*not found/),
    })
  })
})
