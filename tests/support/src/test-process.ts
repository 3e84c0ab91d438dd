/** A service in its own process, which a test can stop, kill and start again. */
export interface TestProcess extends AsyncDisposable {
  readonly name: string
  readonly pid: number
  /** The environment of the process. */
  readonly environment: Readonly<Record<string, string>>
  /** `http://host:port` that serves /readyz, /healthz and /metrics. */
  readonly operationsUrl: string
  /** Its log so far, over all its starts. */
  log(): Promise<string>
  /** Sends SIGTERM and returns the exit code or signal as text: `exit code 0` after a clean stop. */
  stop(): Promise<string>
  /** Sends SIGKILL or another signal, and returns when the process has ended. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Sends SIGSTOP: the process is alive but answers nothing until `resume`. */
  freeze(): void
  resume(): void
  /** Starts it again, with changes to its environment or another release, and returns when it is ready. */
  start(changes?: Record<string, string>, release?: string): Promise<void>
  /** Returns when /readyz answers 200. Throws after `timeoutMs`, by default two minutes. */
  untilReady(timeoutMs?: number): Promise<void>
}

export interface ServiceOptions {
  /** How long to wait for /readyz, by default two minutes; 0 returns at once. */
  waitMs?: number
  name?: string
  /** A folder of bundles, or with TEST_IMAGES the tag of the images; by default this checkout. */
  release?: string
}
