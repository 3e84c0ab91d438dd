import { double, integer, jsonValue, string } from 'fast-check'
import type { GeneratorValue } from 'fast-check'

/** The random choices of one case. The same seed and path give the same choices. */
export class Dice {
  readonly #draw: GeneratorValue

  constructor(draw: GeneratorValue) {
    this.#draw = draw
  }

  chance(percent: number): boolean {
    return this.upTo(99) < percent
  }

  upTo(max: number): number {
    return this.#draw(integer, { min: 0, max: max })
  }

  one<T>(values: readonly T[]): T {
    return values[this.upTo(values.length - 1)]!
  }

  /** Prefers the end of the list: the latest objects. */
  recent<T>(values: readonly T[]): T | undefined {
    const from = this.chance(70) ? Math.max(0, values.length - 8) : 0
    return values.length === 0 ? undefined : this.one(values.slice(from))
  }

  /** Any text, also with characters outside the basic plane, control characters and unpaired surrogates. */
  text(): string {
    return this.#draw(string, { unit: this.chance(30) ? wild : 'binary', maxLength: 40 })
  }

  json(): unknown {
    return this.#draw(jsonValue, { maxDepth: 3 })
  }

  number(): number {
    return this.#draw(double, { noNaN: true, noDefaultInfinity: true })
  }
}

const wild = integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit))
