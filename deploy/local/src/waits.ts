/** What a start waits for now. While there is something, a line says so every ten seconds. */
export class Waits implements Disposable {
  readonly #open = new Set<() => string>()
  readonly #timer: NodeJS.Timeout

  constructor(say: (line: string) => void, everyMs = 10_000) {
    this.#timer = setInterval(() => {
      if (this.#open.size > 0) say(`waiting for ${[...this.#open].map((what) => what()).join(', ')}`)
    }, everyMs)
  }

  /** @param what a name, or a function if that changes meanwhile */
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
