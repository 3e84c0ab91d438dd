const behindFrom = 250
const behindForMs = 1_000

/**
 * Whether more events wait than those of a few moments, or did so lately: in a flood the number rises and falls with
 * each batch. Pure; times are milliseconds that only grow.
 */
export class Backlog {
  #until = -Infinity

  note(waiting: number, now: number): void {
    if (waiting > behindFrom) this.#until = now + behindForMs
  }

  isBehind(now: number): boolean {
    return now < this.#until
  }
}
