/** Checks a dependency of the process. Resolves if it works, and rejects with the reason if it does not. */
export type Probe = () => Promise<void> | void

/**
 * Whether the process is ready: all probes pass, and the process is not stopping.
 *
 * @example health.add('database', async () => { await sql`select 1` })
 */
export class Health {
  readonly #probes = new Map<string, Probe>()
  readonly #lifeProblems: (() => string | null)[] = []
  #stopping = false

  add(name: string, probe: Probe): void {
    this.#probes.set(name, probe)
  }

  /** For /healthz: null while the process is alive; otherwise the reason to restart it. */
  get lifeProblem(): string | null {
    for (const problem of this.#lifeProblems) {
      const found = problem()
      if (found !== null) return found
    }
    return null
  }

  aliveUnless(problem: () => string | null): void {
    this.#lifeProblems.push(problem)
  }

  /** Makes the process not ready, so that load balancers send new requests to other replicas. */
  stopping(): void {
    this.#stopping = true
  }

  get isStopping(): boolean {
    return this.#stopping
  }

  /** Runs all probes. The result of a probe is its problem, or null. Each probe may take `timeoutMs` milliseconds. */
  async check(timeoutMs = 2000): Promise<{ ready: boolean; probes: Record<string, string | null> }> {
    const outcomes = await Promise.all(
      [...this.#probes].map(async ([name, probe]) => [name, await outcome(probe, timeoutMs)] as const),
    )
    const probes = Object.fromEntries(outcomes)
    if (this.#stopping) probes.process = 'is stopping'
    return { ready: Object.values(probes).every((problem) => problem === null), probes }
  }
}

async function outcome(probe: Probe, timeoutMs: number): Promise<string | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`no answer in ${timeoutMs} ms`), timeoutMs)
  })
  try {
    return await Promise.race([Promise.resolve(probe()).then(() => null), late])
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  } finally {
    clearTimeout(timer)
  }
}
