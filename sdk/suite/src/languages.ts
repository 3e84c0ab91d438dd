import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const sdks = fileURLToPath(new URL('../..', import.meta.url))

/** In each command `{build}` stands for the language's folder of build results, outside of the checkout. */
export interface Language {
  readonly name: string
  /** Working directory of its commands, in `sdk/`. */
  readonly folder: string
  /** Shell commands that succeed if the tools are installed. */
  readonly probes: readonly string[]
  /** Builds the driver. */
  readonly prepare?: string
  /** Runs the vectors. Absent: they are a project of `npm test`, or of another row. */
  readonly test?: string
  /** With `npm run test:full`, instead of `test`: all tests of the language, formatters, linters, race detectors. */
  readonly fullTest?: string
  /** The program that speaks the protocol of the README, and its arguments. */
  readonly driver: readonly string[]
  /** For the programs of the guides, by the language of their blocks. Tests have an entry of their own if they run in another way. */
  readonly programs: Readonly<Record<string, Program>>
}

/** Shell commands, in which `{file}` stands for the source and `{work}` for its folder. */
interface Program {
  readonly compile?: string
  /** Gets the arguments of the program from the shell. */
  readonly run: string
}

const RUST_PROBES = [
  // 1.85 or newer
  String.raw`rustc --version | grep -Eq ' 1\.(8[5-9]|9[0-9]|[1-9][0-9]{2})\.'`,
  'cargo fetch --quiet',
]

const CARGO_BUILD = 'cargo build --quiet --target-dir {build}'
const CARGO_TEST = 'cargo test --quiet --target-dir {build}'
const PYTHON_TESTS = 'PYTHONPATH=src python3 -m unittest discover -s tests'

/** Short runs gain nothing from the compiler for long ones. */
const QUICK_JAVA = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']

const RUN_WITH_LIBRARY = 'LD_LIBRARY_PATH={build}/debug exec {work}/program "$@"'
const LINK_LIBRARY = '-Iinclude -L{build}/debug -llicensing -pthread -o {work}/program'

const GO_MODULE = String.raw`sdk=$PWD && cd {work} && go mod init product 2>&- \
  && go mod edit -require licensing.example/licensing@v0.1.0 -replace licensing.example/licensing=$sdk`

const RUSTC = String.raw`rustc --edition 2021 -L dependency={build}/debug/deps --extern licensing={build}/debug/liblicensing.rlib \
  --extern tiny_http=$(ls -t {build}/debug/deps/libtiny_http-*.rlib | head -n 1) -o {work}/program {file}`

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
    probes: ['python3 -c "import cryptography"'],
    // With asyncio only the vectors of the start: the rest of the code is the same.
    test: `${PYTHON_TESTS} -p test_vectors.py -k _threads -k webhooks -k start_aio`,
    fullTest: `{ ! command -v ruff || { ruff format --check . && ruff check . && mypy; }; } && ${PYTHON_TESTS}`,
    driver: ['env', 'PYTHONPATH=src', 'python3', 'tests/driver.py'],
    programs: { python: { run: 'PYTHONPATH=src exec python3 -u {file} "$@"' } },
  },
  {
    name: 'Go',
    folder: 'go',
    // 1.22 or newer
    probes: [String.raw`go version | grep -Eq 'go1\.(2[2-9]|[3-9][0-9])'`],
    prepare: 'CGO_ENABLED=0 go build -o {build}/driver ./internal/driver',
    // A result that Go has kept would not notice changes of the vectors.
    test: "CGO_ENABLED=0 go test -vet=off -count=1 -run 'Vectors$' .",
    fullTest: 'test -z "$(gofmt -l .)" && go vet ./... && go test -race -count=1 ./...',
    driver: ['{build}/driver'],
    programs: {
      go: {
        compile: `${GO_MODULE} && CGO_ENABLED=0 go build -o program {file}`,
        run: 'exec {work}/program "$@"',
      },
      'go test': { compile: GO_MODULE, run: 'cd {work} && CGO_ENABLED=0 exec go test -v .' },
    },
  },
  {
    name: 'Java',
    folder: 'java',
    probes: ['command -v javac', 'test -f /usr/share/java/junit-platform-console.jar'],
    prepare: './test.sh {build}/classes compile',
    test: './test.sh {build}/classes VectorsTest WebhooksTest',
    fullTest:
      './test.sh {build}/tests && mvn --quiet --batch-mode -DbuildDirectory={build}/maven spotless:check test',
    driver: ['java', ...QUICK_JAVA, '-cp', '{build}/classes', 'licensing.Driver'],
    programs: { java: { run: 'exec java -cp {build}/classes {file} "$@"' } },
  },
  {
    name: 'Rust',
    folder: 'rust',
    probes: RUST_PROBES,
    prepare: `${CARGO_BUILD} --lib --example driver`,
    test: `${CARGO_TEST} --test vectors`,
    fullTest: `cargo fmt --check && cargo clippy --quiet --all-targets --target-dir {build} -- --deny warnings && ${CARGO_TEST}`,
    driver: ['{build}/debug/examples/driver'],
    programs: {
      rust: { compile: RUSTC, run: 'exec {work}/program "$@"' },
      'rust test': { compile: `${RUSTC} --test`, run: 'exec {work}/program' },
    },
  },
  {
    name: 'C++',
    folder: 'rust',
    probes: [...RUST_PROBES, 'command -v cc', 'command -v c++'],
    prepare: `${CARGO_BUILD} --lib && c++ -std=c++17 -pthread -Iinclude tests/driver.cpp -L{build}/debug -llicensing -o {build}/driver-cpp`,
    fullTest: '! command -v clang-format || clang-format --dry-run --Werror include/* tests/*.c tests/*.cpp',
    driver: ['env', 'LD_LIBRARY_PATH={build}/debug', '{build}/driver-cpp'],
    programs: {
      c: { compile: `cc -std=c11 {file} ${LINK_LIBRARY}`, run: RUN_WITH_LIBRARY },
      cpp: {
        compile: `c++ -std=c++17 {file} ${LINK_LIBRARY} $(grep -qs httplib.h {file} && echo -lcpp-httplib)`,
        run: RUN_WITH_LIBRARY,
      },
    },
  },
  {
    name: 'C#',
    folder: 'rust',
    probes: [...RUST_PROBES, 'command -v mono', 'command -v mcs'],
    prepare: `${CARGO_BUILD} --lib && mcs -langversion:7.2 -out:{build}/driver.exe csharp/Licensing.cs tests/Driver.cs`,
    driver: ['env', 'LD_LIBRARY_PATH={build}/debug', 'mono', '{build}/driver.exe'],
    programs: {
      csharp: {
        compile: 'mcs -langversion:7.2 -out:{work}/program.exe csharp/Licensing.cs {file}',
        run: 'LD_LIBRARY_PATH={build}/debug exec mono {work}/program.exe "$@"',
      },
    },
  },
]

const outcomes = new Map<string, boolean>()

function succeeds(probe: string, folder: string): boolean {
  const known = outcomes.get(probe) ?? spawnSync('sh', ['-c', probe], { cwd: folder }).status === 0
  outcomes.set(probe, known)
  return known
}

/** The languages whose tools are installed. The output names the others. */
export const languages: readonly Language[] = all.filter(({ name, folder, probes }) => {
  const missing = probes.find((probe) => !succeeds(probe, join(sdks, folder)))
  if (missing) process.stdout.write(`skipped: the SDK of ${name}, because this fails: ${missing}\n`)
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
export function located(language: Language, command: string): string {
  return command.replaceAll('{build}', buildFolder(language))
}

/** A program of a guide: the language of its block, its file name and its text. */
export interface Source {
  readonly kind: string
  readonly name: string
  readonly code: string
}

/** Writes a program of a guide to a folder, compiles it, and returns the command that runs it. The arguments of the program follow. */
export async function compile(
  language: Language,
  { kind, name, code }: Source,
  work: string,
): Promise<[string, ...string[]]> {
  await prepare(language)
  const { programs } = language
  const program = (/test/i.test(name) ? programs[`${kind} test`] : undefined) ?? programs[kind]!
  const file = join(work, name)
  await writeFile(file, code)
  const command = (script: string) =>
    located(language, script).replaceAll('{file}', file).replaceAll('{work}', work)
  if (program.compile) await run('sh', ['-c', command(program.compile)], { cwd: folderOf(language) })
  return ['sh', '-c', command(program.run), 'sh']
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
  const command = ['sh', '-c', located(language, language.prepare)]
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
