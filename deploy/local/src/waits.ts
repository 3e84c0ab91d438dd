/** The tasks that a start waits for. While there are any, it prints them every ten seconds. */
export class Waits implements Disposable {
  readonly #open = new Set<() => string>()
  readonly #timer: NodeJS.Timeout

  constructor(say: (line: string) => void, everyMs = 10_000) {
    this.#timer = setInterval(() => {
      if (this.#open.size > 0) say(`waiting for ${[...this.#open].map((what) => what()).join(', ')}`)
    }, everyMs)
  }

  /** @param what the name of the task, or a function if the name changes */
  async during<Result>(what: string | (() => string), work: Promise<Result>): Promise<Result> {
    const describe = typeof what === 'string' ? () => what : what
    this.#open.add(describe)
    try {
      return await work
    } finally {
      this.#open.delete(describe)
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}
