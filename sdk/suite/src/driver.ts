import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { folderOf, located, prepare, type Language } from './languages.ts'

/** The fields of a state that the suite compares, in the notation of the vectors. */
export interface State {
  readonly status: string
  readonly usable: boolean
  readonly reason: string | null
  readonly licence_id: string | null
  readonly activation_id: string | null
  readonly expires_at: string | null
  readonly problem: string | null
  readonly [field: string]: unknown
}

/** The options of a client, in the notation of the vectors. */
export interface ClientOptions {
  readonly base_url: string
  readonly app_id: string
  readonly root_key: string | readonly string[]
  readonly licence_key?: string
  readonly fingerprint: string
  readonly host: string
  readonly product_version: string
  /** Absent: a store in memory. */
  readonly store_file?: string
  readonly timeout_ms?: number
  readonly background?: boolean
}

interface Request {
  readonly client?: string
  readonly argument?: unknown
  readonly options?: ClientOptions
}

/** An answer of a driver; see the README. */
export interface Answer {
  readonly id: number
  readonly ok?: true
  readonly threw?: string
  readonly state?: State
  readonly text?: string
  readonly value?: boolean | number
  readonly event?: Readonly<Record<string, unknown>>
  readonly reason?: string
}

/** The driver of a language: a process that has clients of the SDK, and calls them. */
export class Driver implements AsyncDisposable {
  readonly language: Language
  readonly #process: ReturnType<typeof launch>
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  readonly #ended: Promise<unknown>
  #requests = 0
  #clients = 0
  #hasEnded = false
  #errors = ''

  private constructor(language: Language, wrapper: readonly string[]) {
    this.language = language
    this.#process = launch(language, wrapper)
    const { stdout, stderr } = this.#process
    this.#ended = once(this.#process, 'exit').finally(() => (this.#hasEnded = true))
    stderr.on('data', (text: Buffer) => (this.#errors += text.toString()))
    createInterface({ input: stdout }).on('line', (line) => {
      const answer = JSON.parse(line) as Answer
      this.#waiting.get(answer.id)?.(answer)
      this.#waiting.delete(answer.id)
    })
  }

  /**
   * Starts the driver of a language.
   *
   * @param wrapper a command that runs the driver's command, which is added to it
   */
  static async start(language: Language, wrapper: readonly string[] = []): Promise<Driver> {
    await prepare(language)
    return new Driver(language, wrapper)
  }

  /** Sends a request, and returns the answer, which may be that the call threw. */
  async ask(call: string, request: Request = {}): Promise<Answer> {
    const id = ++this.#requests
    const answered = new Promise<Answer>((resolve) => this.#waiting.set(id, resolve))
    this.#process.stdin.write(`${JSON.stringify({ id, call, ...request })}\n`)
    const ended = this.#ended.then(() => Promise.reject(new Error(`the driver has ended: ${this.#errors}`)))
    return Promise.race([answered, ended])
  }

  /** Creates a client. */
  async open(options: ClientOptions): Promise<DrivenClient> {
    const client = `client-${++this.#clients}`
    refuseThrown(await this.ask('new', { client, options }))
    return new DrivenClient(this, client)
  }

  /** The result of `machine_fingerprint`. */
  async fingerprint(argument: { readonly app_id: string; readonly file?: string }): Promise<string> {
    return refuseThrown(await this.ask('machine_fingerprint', { argument })).text ?? ''
  }

  /** Ends the input, and waits until the driver has ended by itself. */
  async end(): Promise<unknown> {
    this.#process.stdin.end()
    await this.#ended
    return this.#process.exitCode
  }

  /** Lets the product exit with a code, whatever its clients do. Returns the code of the process. */
  async exit(code: number): Promise<unknown> {
    void this.ask('exit', { argument: code }).catch(() => undefined)
    await this.#ended
    return this.#process.exitCode ?? this.#process.signalCode
  }

  /** The text on the standard error of the process. */
  get errors(): string {
    return this.#errors
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#hasEnded) this.#process.kill('SIGKILL')
    await this.#ended
  }
}

/** A client of a driver. */
class DrivenClient {
  readonly #driver: Driver
  readonly #client: string

  constructor(driver: Driver, client: string) {
    this.#driver = driver
    this.#client = client
  }

  async #ask(call: string, argument?: unknown): Promise<Answer> {
    return refuseThrown(await this.#driver.ask(call, { client: this.#client, argument }))
  }

  /** Makes a call, or with `state` none, and returns the state. */
  async call(name: string, argument?: unknown): Promise<State> {
    const { state } = await this.#ask(name, argument)
    if (!state) throw new Error(`${name} has returned no state`)
    return state
  }

  /** The result of `has_feature`, `limit` or `covers`. */
  async value(name: 'has_feature' | 'limit' | 'covers', argument: string): Promise<unknown> {
    return (await this.#ask(name, argument)).value
  }

  async createOfflineRequest(): Promise<Readonly<Record<string, unknown>>> {
    return JSON.parse((await this.#ask('create_offline_request')).text ?? '') as Record<string, unknown>
  }

  /** Sets the local clock: an ISO time, or null for the real clock. */
  async setClock(time: string | null): Promise<void> {
    await this.#ask('clock', time)
  }

  /** Ends the background work. */
  async close(): Promise<void> {
    await this.#ask('close')
  }
}

function launch(language: Language, wrapper: readonly string[]) {
  const driver = language.driver.map((word) => located(language, word))
  const [program, ...parameters] = [...wrapper, ...driver] as [string]
  return spawn(program, parameters, { cwd: folderOf(language), stdio: ['pipe', 'pipe', 'pipe'] })
}

function refuseThrown(answer: Answer): Answer {
  if (answer.threw !== undefined) throw new Error(`the call has thrown: ${answer.threw}`)
  return answer
}
