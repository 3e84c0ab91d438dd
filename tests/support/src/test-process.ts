/** One of our services as a process of its own, that a test can stop, kill and start again. */
export interface TestProcess extends AsyncDisposable {
  readonly name: string
  readonly pid: number
  /** The environment it runs in. */
  readonly environment: Readonly<Record<string, string>>
  /** `http://host:port` where /readyz, /healthz and /metrics are. */
  readonly operationsUrl: string
  /** Its log so far, over all its starts. */
  log(): Promise<string>
  /** SIGTERM; answers what ended it: `exit code 0` when it stopped cleanly. */
  stop(): Promise<string>
  /** kill -9, or another signal; returns when it is gone. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** SIGSTOP: alive, but answers nothing; `resume` lets it go on. */
  freeze(): void
  resume(): void
  /** Starts it again, with changes to its environment or another release, and returns when it is ready. */
  start(changes?: Record<string, string>, release?: string): Promise<void>
  /** Returns when /readyz answers 200; throws when that takes longer than `timeoutMs` (two minutes). */
  untilReady(timeoutMs?: number): Promise<void>
}

export interface ServiceOptions {
  /** How long to wait for /readyz, 30 s when absent; 0 returns at once. */
  waitMs?: number
  name?: string
  /** A folder of bundles, or with TEST_IMAGES the tag of the images; what is in this checkout when absent. */
  release?: string
}
