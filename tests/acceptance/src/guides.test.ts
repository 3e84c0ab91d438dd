import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, cp, mkdir, realpath, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensurePacked } from '@licensing/downloads/build'
import { CHECKOUT } from '@licensing/local-servers/services'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { freeAddress } from '@licensing/test-support/free-address'
import { expect, onTestFinished, test } from 'vitest'
import { givenEndpoint } from './delivery.ts'
import { blocksOf, scripts } from './documents.ts'
import type { Block } from './documents.ts'
import { expectStatus, givenFolder, givenReceiver, givenStack, givenVendor } from './vendor.ts'

const modules = fileURLToPath(new URL('../node_modules', import.meta.url))
const libraries = fileURLToPath(new URL('../../../sdk/typescript/node_modules/', import.meta.url))

/** Guides that install the packages from the gateway themselves, as a reader does. */
const installing = ['docs/guides/quickstart.md', 'docs/guides/testing.md']

await ensurePacked(() => undefined)
const folder = await givenFolder()
const receiver = await givenReceiver()
const stack = await givenStack()
// The published program of the command line. It starts faster than its sources.
const packed = fileURLToPath(new URL('../../../deploy/downloads/dist/licensing-cli.tgz', import.meta.url))
execFileSync('tar', ['-xzf', packed, '-C', folder.path])
const bin = join(folder.path, 'bin')
const program = join(folder.path, 'package/dist/main.js')
await mkdir(bin)
await writeFile(join(bin, 'licensing'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
await chmod(join(bin, 'licensing'), 0o755)

// The commands for a cluster run with the environment of a service, which a container does not show.
const runnable = scripts.filter((document) => !(stack.runAdmin && document.endsWith('kubernetes.md')))

test.each(runnable)('the commands of %s work without changes', async (document) => {
  const vendor = await givenVendor(stack)
  const cwd = join(folder.path, document.replaceAll('/', '-'))
  const installed = join(cwd, '.global/bin')
  await mkdir(cwd)
  const isInstalling = installing.includes(document)
  if (isInstalling) await givePublicLibraries(cwd)
  else await symlink(modules, join(cwd, 'node_modules'))
  const environment: Record<string, string> = {
    ...commandEnvironment(),
    PATH: [isInstalling ? installed : bin, join(process.execPath, '..'), process.env['PATH']].join(':'),
    HOME: cwd,
    npm_config_prefix: join(cwd, '.global'),
    // npm must not download anything from another server.
    npm_config_registry: 'http://127.0.0.1:9',
    npm_config_fetch_retries: '0',
    npm_config_audit: 'false',
    LICENSING_URL: stack.gatewayUrl,
    LICENSING_API_KEY: stack.apiKey,
    LICENSING_APP: vendor.appId,
    LICENSING_SIMULATOR_URL: stack.simulator!.url,
    ROOT_KEY: vendor.rootKey,
    PORT: (await freeAddress()).split(':')[1]!,
  }
  if (/(?:products|offline|testing)\.md$/.test(document)) {
    environment['LICENCE_KEY'] = (await vendor.issue((await vendor.plan({ code: 'pro' })).id)).key
  }
  if (document.endsWith('guides/cli.md')) {
    await vendor.define('seats', 'limit')
    await vendor.plan({ code: 'pro' })
    environment['LICENCE'] = (await vendor.issue((await vendor.plan()).id)).id
  }
  if (document.endsWith('lost-webhook.md')) {
    const endpoint = await givenEndpoint(vendor, receiver)
    const { id } = await vendor.issue((await vendor.plan()).id)
    expectStatus(await vendor.verb('suspend', id), 200)
    await endpoint.next(1)
    const deliveries = await vendor.api.get<{ data: { id: string }[] }>(
      `${vendor.app}/webhook-deliveries?licence=${id}`,
    )
    Object.assign(environment, { LICENCE: id, DELIVERY: deliveries.body.data[0]!.id })
  }
  if (document.endsWith('kubernetes.md')) await givenCluster(cwd)
  const { code, output } = await runScript(scriptOf(blocksOf(document)), cwd, environment)
  expect(code, output.slice(-3_000)).toBe(0)
})

/**
 * The manifests, and a `kubectl` that runs `licensing-admin` against the stack. It only checks that the other files that it is given
 * exist: kubernetes.test.ts in the integration suite checks the secrets and the manifests.
 */
async function givenCluster(cwd: string): Promise<void> {
  for (const part of ['kubernetes', 'compose'])
    await cp(join(CHECKOUT, 'deploy', part), join(cwd, 'deploy', part), { recursive: true })
  const variables = Object.entries(stack.processes.catalog[0]!.environment).map(
    ([name, value]) => `'${name}=${value}'`,
  )
  const admin = join(CHECKOUT, 'deploy/admin/src/licensing-admin.ts')
  const kubectl = `#!/bin/bash
set -eu
case "$*" in
  *licensing-admin*) exec env -i ${variables.join(' ')} '${process.execPath}' '${admin}' "\${@:7}" ;;
  *psql*) grep --quiet 'create database notifier' ;;
  'apply -k'*) test -f "$3/kustomization.yaml" ;;
  *'create secret'*) test -s "$(sed 's/.*--from-env-file=//' <<< "$*")" ;;
  *'rollout status'*) ;;
  *) exit 64 ;;
esac
`
  await writeFile(join(bin, 'kubectl'), kubectl)
  await chmod(join(bin, 'kubectl'), 0o755)
}

/** Installs the SDK's dependencies from this checkout, so that nothing is downloaded from the public registry. */
async function givePublicLibraries(cwd: string): Promise<void> {
  const name = '@noble/ed25519'
  await cp(await realpath(join(libraries, name)), join(cwd, 'node_modules', name), { recursive: true })
}

/** Converts a document to one script, which writes files and runs commands in the order of the text. */
function scriptOf(blocks: readonly Block[]): string {
  const steps = blocks.flatMap(({ language, file, code }) => {
    if (file !== undefined) {
      const end = `END_${randomUUID()}`
      return [`cat > '${file}' <<'${end}'\n${code}${end}`]
    }
    return language === 'sh' ? [code] : []
  })
  return ['set -eu -o pipefail', ...steps].join('\n')
}

async function runScript(script: string, cwd: string, env: Record<string, string>) {
  // The script gets its own process group, so that its background processes can be ended together with it.
  const child = spawn('bash', ['-c', script], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  }
  // Also if the test has timed out.
  onTestFinished(() => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // The process group has already ended.
    }
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  return { code, output }
}
