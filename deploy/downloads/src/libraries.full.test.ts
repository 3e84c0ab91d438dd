import { CHECKOUT } from '@licensing/local-servers/services'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile, spawnSync } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { packCompiled } from './languages.ts'

const run = promisify(execFile)
const has = (program: string, ...parameters: string[]) => spawnSync(program, parameters).status === 0
const rust = join(CHECKOUT, 'sdk/rust')

/** The program of the README in a language, with a service that cannot be reached. */
async function programOf(language: string): Promise<string> {
  const readme = await readFile(join(rust, 'README.md'), 'utf8')
  const [, code = ''] = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(readme) ?? []
  return code.replaceAll('https://licensing.example.com', 'http://127.0.0.1:9')
}

test.skipIf(!has('cargo', '--version'))(
  'products in Rust, C, C++ and C# are built with the packages of this platform, and run',
  async () => {
    await using folder = await makeTemporaryFolder()
    const at = (...names: string[]) => join(folder.path, ...names)
    const said: string[] = []
    await packCompiled({ folder: rust, tool: 'cargo' }, folder.path, (line) => said.push(line))
    expect(said).toEqual([])
    const [archive = ''] = (await readdir(folder.path)).filter((name) => name.startsWith('licensing-c-'))
    for (const file of ['licensing.crate', archive]) await run('tar', ['-xzf', at(file), '-C', folder.path])
    await run('python3', ['-m', 'zipfile', '-e', at('licensing-csharp.zip'), folder.path])

    const [crate = ''] = (await readdir(folder.path)).filter((name) => /^licensing-[\d.]+$/.test(name))
    const read = [
      'metadata',
      '--no-deps',
      '--format-version',
      '1',
      '--manifest-path',
      at(crate, 'Cargo.toml'),
    ]
    const { packages } = JSON.parse((await run('cargo', read)).stdout) as { packages: { name: string }[] }
    expect(packages.map(({ name }) => name)).toEqual(['licensing'])

    const refused = 'not licensed: unreachable\n'
    for (const [language, compiler, standard] of [
      ['c', 'cc', '-std=c11'],
      ['cpp', 'c++', '-std=c++17'],
    ] as const) {
      if (!has(compiler, '--version')) continue
      const source = at(`product.${language}`)
      await writeFile(source, await programOf(language))
      const library =
        language === 'c'
          ? [at('licensing-c/lib/liblicensing.a')]
          : ['-L', at('licensing-c/lib'), '-llicensing']
      const flags = [
        standard,
        '-I',
        at('licensing-c/include'),
        source,
        ...library,
        '-lpthread',
        '-ldl',
        '-lm',
      ]
      await run(compiler, [...flags, '-o', at(language)])
      const env = { ...process.env, LD_LIBRARY_PATH: at('licensing-c/lib') }
      expect((await run(at(language), [], { env })).stderr).toBe(refused)
    }
    if (!has('mcs', '--version')) return
    await writeFile(at('Product.cs'), await programOf('csharp'))
    await run('mcs', [
      '-langversion:7.2',
      `-out:${at('licensing-csharp/product.exe')}`,
      at('licensing-csharp/Licensing.cs'),
      at('Product.cs'),
    ])
    const env = { ...process.env, LD_LIBRARY_PATH: at('licensing-csharp') }
    expect((await run('mono', [at('licensing-csharp/product.exe')], { env })).stderr).toBe(refused)
  },
  // All dependencies are compiled with optimisation.
  900_000,
)
