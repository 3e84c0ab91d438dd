import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const sdks = fileURLToPath(new URL('../..', import.meta.url))

/** A program and its arguments. `{build}` stands for the language's folder of build results, outside of the checkout. */
type Command = readonly [string, ...string[]]

export interface Language {
  readonly name: string
  /** Working directory of its commands, in `sdk/`. */
  readonly folder: string
  /** Commands that succeed if the tools are installed. */
  readonly probes: readonly Command[]
  /** Builds the driver. */
  readonly prepare?: Command
  /** Runs the language's own tests, among them the vectors. Absent: they are a project of `npm test`, or of another row. */
  readonly test?: Command
  /** With `npm run test:full`, instead of `test`: also linters, race detectors, and packages from a registry. */
  readonly fullTest?: Command
  /** The program that speaks the protocol of the README. */
  readonly driver: Command
  /**
   * For the programs of the guides, by the language of their blocks: shell commands that compile `{file}` in the empty folder
   * `{work}`, and run it with the arguments of the shell.
   */
  readonly programs: Readonly<Record<string, string>>
}

const JAVA_DRIVER = 'src/test/java/licensing/Driver.java'

const RUST_PROBES: readonly Command[] = [
  // 1.85 or newer
  ['sh', '-c', String.raw`rustc --version | grep -Eq ' 1\.(8[5-9]|9[0-9]|[1-9][0-9]{2})\.'`],
  ['cargo', 'fetch', '--quiet'],
]

const WITH_LIBRARY = 'LD_LIBRARY_PATH={build}/debug exec'

const all: readonly Language[] = [
  {
    name: 'TypeScript',
    folder: 'typescript',
    probes: [],
    driver: [process.execPath, 'test/driver.ts'],
    programs: {}, // tests/acceptance/src/guides.test.ts runs these
  },
  {
    name: 'Python',
    folder: 'python',
    probes: [['python3', '-c', 'import cryptography']],
    test: ['env', 'PYTHONPATH=src', 'python3', '-m', 'unittest', 'discover', '-s', 'tests'],
    driver: ['env', 'PYTHONPATH=src', 'python3', 'tests/driver.py'],
    programs: { python: 'PYTHONPATH=src exec python3 -u {file} "$@"' },
  },
  {
    name: 'Go',
    folder: 'go',
    // 1.22 or newer
    probes: [['sh', '-c', String.raw`go version | grep -Eq 'go1\.(2[2-9]|[3-9][0-9])'`]],
    prepare: ['go', 'build', '-o', '{build}/driver', './internal/driver'],
    // A result that Go has kept would not notice changes of the vectors.
    test: ['env', 'CGO_ENABLED=0', 'go', 'test', '-count=1', './...'],
    fullTest: ['sh', '-c', 'test -z "$(gofmt -l .)" && go vet ./... && go test -race -count=1 ./...'],
    driver: ['{build}/driver'],
    programs: {
      go: String.raw`sdk=$PWD && cd {work} && go mod init product 2>&- \
        && go mod edit -require licensing.example/licensing@v0.1.0 -replace licensing.example/licensing=$sdk \
        && CGO_ENABLED=0 go build -o program {file} && exec ./program "$@"`,
    },
  },
  {
    name: 'Java',
    folder: 'java',
    probes: [
      ['javac', '--version'],
      ['test', '-f', '/usr/share/java/junit-platform-console.jar'],
    ],
    prepare: ['javac', '-d', '{build}/driver', '-sourcepath', 'src/main/java:src/test/java', JAVA_DRIVER],
    test: ['./test.sh', '{build}/tests'],
    fullTest: ['mvn', '--quiet', '--batch-mode', '-DbuildDirectory={build}/maven', 'spotless:check', 'test'],
    driver: ['java', '-cp', '{build}/driver', 'licensing.Driver'],
    programs: { java: 'exec java -cp {build}/driver {file} "$@"' },
  },
  {
    name: 'Rust',
    folder: 'rust',
    probes: RUST_PROBES,
    prepare: ['cargo', 'build', '--quiet', '--example', 'driver', '--target-dir', '{build}'],
    test: ['cargo', 'test', '--quiet', '--target-dir', '{build}'],
    fullTest: [
      'sh',
      '-c',
      'cargo fmt --check && cargo clippy --quiet --all-targets --target-dir {build} -- --deny warnings && cargo test --quiet --target-dir {build}',
    ],
    driver: ['{build}/debug/examples/driver'],
    programs: {
      rust: `rustc --edition 2021 --extern licensing={build}/debug/liblicensing.rlib -L dependency={build}/debug/deps \
        -o {work}/program {file} && exec {work}/program "$@"`,
      c: `cc -std=c11 -Iinclude {file} -L{build}/debug -llicensing -o {work}/program && ${WITH_LIBRARY} {work}/program`,
      cpp: `c++ -std=c++17 -Iinclude {file} -L{build}/debug -llicensing -o {work}/program && ${WITH_LIBRARY} {work}/program`,
    },
  },
  {
    name: 'C#',
    folder: 'rust',
    probes: [...RUST_PROBES, ['mono', '--version'], ['mcs', '--version']],
    prepare: [
      'sh',
      '-c',
      'cargo build --quiet --lib --target-dir {build} && mcs -langversion:7.2 -out:{build}/driver.exe csharp/Licensing.cs tests/Driver.cs',
    ],
    driver: ['env', 'LD_LIBRARY_PATH={build}/debug', 'mono', '{build}/driver.exe'],
    programs: {
      csharp: `mcs -langversion:7.2 -out:{work}/program.exe csharp/Licensing.cs {file} && ${WITH_LIBRARY} mono {work}/program.exe`,
    },
  },
]

/** The languages whose tools are installed. The output names the others. */
export const languages: readonly Language[] = all.filter(({ name, folder, probes }) => {
  if (!existsSync(join(sdks, folder))) return false
  const missing = probes.find(
    ([program, ...parameters]) => spawnSync(program, parameters, { cwd: join(sdks, folder) }).status !== 0,
  )
  if (missing) process.stdout.write(`skipped: the SDK of ${name}, because this fails: ${missing.join(' ')}\n`)
  return !missing
})

/** The working directory of a language's commands. */
export function folderOf({ folder }: Language): string {
  return join(sdks, folder)
}

/** Build results are kept between runs, so that only what has changed is compiled. Languages of one folder share them. */
function buildFolder({ folder }: Language): string {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  return join(cache, 'licensing-sdk', folder)
}

/** A command with its placeholders replaced. */
export function commandOf(language: Language, command: Command): [string, ...string[]] {
  return command.map((word) => located(language, word)) as [string, ...string[]]
}

function located(language: Language, text: string): string {
  return text.replaceAll('{build}', buildFolder(language))
}

/** The command that compiles and runs a program of a guide. */
export function programOf(
  language: Language,
  kind: string,
  { file, work }: { readonly file: string; readonly work: string },
): [string, ...string[]] {
  const script = located(language, language.programs[kind] ?? '')
  return ['sh', '-c', script.replaceAll('{file}', file).replaceAll('{work}', work), 'sh']
}

const prepared = new Map<Language, Promise<void>>()

/** Builds the driver of a language. Processes that do this at once take turns. */
export function prepare(language: Language): Promise<void> {
  let preparation = prepared.get(language)
  if (!preparation) prepared.set(language, (preparation = build(language)))
  return preparation
}

async function build(language: Language): Promise<void> {
  if (!language.prepare) return
  const folder = buildFolder(language)
  await mkdir(folder, { recursive: true })
  // A driver that runs must not be replaced: it is built again only after a change of the sources.
  const unlessBuilt =
    '[ "$(cat "$1")" = "$2" ] 2>&- || { stamp=$1 key=$2; shift 2; "$@" && echo "$key" >"$stamp"; }'
  const command = commandOf(language, language.prepare)
  const stamp = [join(folder, `.built-${language.name}`), await digestOf(folderOf(language))]
  const parameters = [join(folder, '.lock'), 'sh', '-c', unlessBuilt, 'sh', ...stamp, ...command]
  await run('flock', parameters, { cwd: folderOf(language) })
}

/** A digest of all sources of a folder. */
async function digestOf(folder: string): Promise<string> {
  const hash = createHash('sha256')
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const sources = files
    .filter((file) => file.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => !/^.(?:target.|Cargo.lock)/.test(path.slice(folder.length)))
  for (const path of sources.toSorted((a, b) => (a < b ? -1 : 1)))
    hash.update(path).update(await readFile(path))
  return hash.digest('hex')
}
