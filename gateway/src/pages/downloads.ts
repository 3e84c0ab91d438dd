import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyInstance } from 'fastify'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { escapeHtml } from './html.ts'
import { sendPage } from './page.ts'

const packages: Readonly<Record<string, readonly [name: string, purpose: string]>> = {
  'licensing-sdk.tgz': ['@licensing/sdk', 'for installed products, webhook receivers and backends'],
  'licensing-cli.tgz': ['@licensing/cli', 'the command line'],
  'licensing-testing.tgz': ['@licensing/testing', 'a licensing service for test suites'],
}

/** Serves `/downloads/`, the packages. They are looked up at each request, because they may be built after the start. */
export function mountDownloads(app: FastifyInstance, folder: string | undefined): void {
  const list = async () => {
    const names = folder === undefined ? [] : await readdir(folder).catch(() => [])
    const packed = names.filter((name) => name.endsWith('.tgz')).toSorted()
    if (packed.length > 0) return packed
    throw new ServiceError(
      'not_found',
      'this gateway was built without the packages; in a checkout npm start builds them, elsewhere DOWNLOADS_DIR names their folder',
    )
  }
  app.get('/downloads', (_request, reply) => reply.redirect('/downloads/', 308))
  app.get('/downloads/', async (request, reply) => {
    const base = `${request.protocol}://${request.host}/downloads`
    const files = await list()
    return sendPage(reply, 'Downloads', listPage(base, files, await readVersions(folder!)))
  })
  app.get<{ Params: { file: string } }>('/downloads/:file', async (request, reply) => {
    const names = await list()
    const { file } = request.params
    if (!names.includes(file)) {
      throw new ServiceError('not_found', `there is no such package; there are ${names.join(', ')}`)
    }
    return reply
      .headers({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-cache' })
      .type('application/gzip')
      .send(await readFile(join(folder!, file)))
  })
}

/** The version of each package, by file. The build of the packages writes it. */
async function readVersions(folder: string): Promise<Readonly<Record<string, string>>> {
  const text = await readFile(join(folder, 'versions.json'), 'utf8').catch(() => '{}')
  return JSON.parse(text) as Record<string, string>
}

function listPage(
  base: string,
  files: readonly string[],
  versions: Readonly<Record<string, string>>,
): string {
  const rows = files.map((file) => {
    const [name, purpose] = packages[file] ?? [file, '']
    const version = escapeHtml(versions[file] ?? '')
    return `<li><a href="${file}">${name}</a> ${version} (${file}): ${purpose}</li>`
  })
  return `<h1>Downloads</h1>
<ul>
${rows.join('\n')}
</ul>
<pre><code>npm install ${escapeHtml(base)}/licensing-sdk.tgz
npx ${escapeHtml(base)}/licensing-cli.tgz --help
npm install --save-dev ${escapeHtml(base)}/licensing-testing.tgz</code></pre>`
}
