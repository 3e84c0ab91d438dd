import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyInstance } from 'fastify'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { escapeHtml } from './html.ts'
import { sendPage } from './page.ts'

/** The packages, each with the beginning of its file's name. */
const packages: readonly (readonly [beginning: string, name: string, purpose: string])[] = [
  [
    'licensing-sdk.tgz',
    '@licensing/sdk',
    'for installed products, webhook receivers and backends, in TypeScript',
  ],
  ['licensing-cli.tgz', '@licensing/cli', 'the command line'],
  ['licensing-testing.tgz', '@licensing/testing', 'a licensing service for test suites'],
  ['licensing-sources.jar', 'licensing', 'the sources of the SDK for Java'],
  ['licensing.jar', 'licensing', 'for installed products and webhook receivers in Java'],
  ['licensing.crate', 'licensing', 'for installed products and webhook receivers in Rust'],
  [
    'licensing-c-source',
    'licensing.h, licensing.hpp',
    'for installed products in C and C++; cargo compiles its library',
  ],
  ['licensing-c-', 'licensing.h, licensing.hpp', 'the same with the library, for the platform in its name'],
  ['licensing-csharp', 'Licensing.cs', 'for installed products and webhook receivers in C#'],
  ['licensing-go', 'licensing', 'for installed products and webhook receivers in Go'],
  ['licensing-', 'licensing', 'for installed products and webhook receivers in Python'],
]

/** The types of the files that are served. */
const types: Readonly<Record<string, string>> = {
  tgz: 'application/gzip',
  gz: 'application/gzip',
  crate: 'application/gzip',
  whl: 'application/zip',
  zip: 'application/zip',
  jar: 'application/java-archive',
}

const extensionOf = (file: string) => file.slice(file.lastIndexOf('.') + 1)

/** The files of the packages that are there. */
async function listFiles(folder: string | undefined): Promise<string[]> {
  const names = folder === undefined ? [] : await readdir(folder).catch(() => [])
  return names.filter((name) => extensionOf(name) in types).toSorted()
}

/** The packages for `/llms.txt`; empty if there are none. */
export async function listForMachines(folder: string | undefined): Promise<string> {
  const files = await listFiles(folder)
  const rows = files.map((file) => `- [${file}](downloads/${file}): ${packageOf(file).join(', ')}\n`)
  return rows.length > 0 ? `\n## Downloads\n\n${rows.join('')}` : ''
}

/** The name of a file's package, and its purpose. */
function packageOf(file: string): [name: string, purpose: string] {
  const [, name, purpose] = packages.find(([beginning]) => file.startsWith(beginning)) ?? ['', file, '']
  return [name, purpose]
}

/** Serves `/downloads/`, the packages. They are looked up at each request, because they may be built after the start. */
export function mountDownloads(app: FastifyInstance, folder: string | undefined): void {
  const list = async () => {
    const packed = await listFiles(folder)
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
      .type(types[extensionOf(file)]!)
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
    const [name, purpose] = packageOf(file)
    const version = escapeHtml(versions[file] ?? '')
    return `<li><a href="${file}">${name}</a> ${version} (${file}): ${purpose}</li>`
  })
  const install = files.filter((file) => file.endsWith('.whl')).map((file) => `pip install ${base}/${file}`)
  return `<h1>Downloads</h1>
<ul>
${rows.join('\n')}
</ul>
<pre><code>npm install ${escapeHtml(base)}/licensing-sdk.tgz
npx ${escapeHtml(base)}/licensing-cli.tgz --help
npm install --save-dev ${escapeHtml(base)}/licensing-testing.tgz
${install.map((line) => escapeHtml(line)).join('\n')}</code></pre>`
}
