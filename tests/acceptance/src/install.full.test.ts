import { ensurePacked } from '@licensing/downloads/build'
import { CHECKOUT } from '@licensing/local-servers/services'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile, spawnSync } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { givenStack, givenVendor } from './vendor.ts'

const run = promisify(execFile)

/** The commands of a reader of docs/guides/products.md in an empty folder, beside those of "Install". */
interface Reader {
  /** Succeeds if the tools are installed. */
  readonly probe: string
  readonly before?: string
  /** Where the program is written to, unless the guide names the file. */
  readonly file?: string
  readonly run: string
}

const readers: Readonly<Record<string, Reader>> = {
  TypeScript: { probe: 'npm --version', before: 'npm init --yes', run: 'node product.mjs' },
  Python: {
    probe: 'python3 -m venv --help',
    before: 'python3 -m venv own && . own/bin/activate',
    run: 'python3 product.py',
  },
  Go: { probe: 'go version', before: 'go mod init product', run: 'go run .' },
  Java: { probe: 'javac --version', run: 'java -cp licensing.jar Product.java' },
  Rust: {
    probe: 'cargo --version',
    before: 'cargo init --name product .',
    file: 'src/main.rs',
    run: 'cargo run',
  },
  C: { probe: 'cargo --version && cc --version', run: './product' },
  'C++': { probe: 'cargo --version && c++ --version', run: './product' },
  'C#': { probe: 'cargo --version && mcs --version', run: 'mono Product.exe' },
}

/** The first block of a language's section in a passage: its file name and its code. */
function blockOf(guide: string, passage: string, language: string): [file: string, code: string] {
  const [, text = ''] = guide.split(`\n## ${passage}\n`)
  const [, section = ''] = text.split(/\n## /)[0]!.split(`\n### ${language}\n`)
  const [, file = '', code = ''] = /^```\w+(?: (\S+))?\n([^]*?)^```$/m.exec(section) ?? []
  return [file, code]
}

await ensurePacked(() => undefined)
const stack = await givenStack()

// C, C++ and C# share a folder, because each compiles the library.
test.each(['TypeScript', 'Python', 'Go', 'Java', 'Rust', 'C, C++, C#'])(
  'in an empty folder, the commands and the program of "License your product" activate a product in %s',
  async (group) => {
    await using folder = await makeTemporaryFolder()
    for (const language of group.split(', ')) await follow(language, folder.path)
  },
  900_000,
)

async function follow(language: string, cwd: string): Promise<void> {
  const { probe, before, file: given, run: command } = readers[language]!
  if (spawnSync('sh', ['-c', probe]).status !== 0) {
    process.stdout.write(`skipped: a product in ${language}, because this fails: ${probe}\n`)
    return
  }
  const vendor = await givenVendor(stack)
  const licence = await vendor.issue((await vendor.plan()).id)
  const guide = await readFile(join(CHECKOUT, 'docs/guides/products.md'), 'utf8')
  const [, install] = blockOf(guide, 'Install', language)
  const [file, program] = blockOf(guide, 'Activate and check entitlements', language)
  const code = program
    .replaceAll('https://licensing.example.com', stack.gatewayUrl)
    .replaceAll(/app_[0-9a-z]{26}/g, vendor.appId)
    .replaceAll(/lrk_[\w-]{43}/g, vendor.rootKey)
    .replaceAll('7ZK2M-4QX9T-B1N8V-WC3HD-60RPF', licence.key)
    .replaceAll('/var/lib/acme', cwd)
  const path = join(cwd, given ?? file)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, code)
  const env = {
    ...commandEnvironment(),
    PATH: `${dirname(process.execPath)}:${process.env['PATH']}`,
    HOME: process.env['HOME'],
    LICENSING_URL: stack.gatewayUrl,
    LICENSING_APP: vendor.appId,
    ROOT_KEY: vendor.rootKey,
    LICENCE_KEY: licence.key,
  }
  const script = [before, install, command].join('\n')
  await run('bash', ['-eu', '-o', 'pipefail', '-c', script], { cwd, env })
  const { body } = await vendor.api.get<{ activations: object[] }>(`/v1/licences/${licence.id}`)
  expect(body.activations).toHaveLength(1)
}
