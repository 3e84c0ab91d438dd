import type { Metadata } from '../objects/wire.ts'
import { invalidRequest } from './stripe-error.ts'

/** All parameters that Stripe has for a call, and whether the simulator supports each. The compiler compares the list with Stripe's types. */
export type Parameters<Known> = Record<Exclude<keyof Known & string, 'expand'>, boolean>

/** Reads typed parameters from a form, where all values are text, or from JSON. Throws errors with Stripe's messages. */
export class Params {
  readonly #values: Record<string, unknown>
  readonly #path: string

  constructor(values: unknown, path = '') {
    this.#values = typeof values === 'object' && values !== null ? (values as Record<string, unknown>) : {}
    this.#path = path
  }

  /** Refuses unknown parameters of the control API. */
  only(...names: string[]): this {
    const unknown = Object.keys(this.#values).find((name) => !names.includes(name))
    if (unknown !== undefined) throw this.#unknown(unknown)
    return this
  }

  /** Refuses a parameter that Stripe's API does not know, as Stripe does, and one that the simulator does not support. */
  accept(known: Record<string, boolean>): this {
    for (const name of Object.keys(this.#values)) {
      if (!Object.hasOwn(known, name)) throw this.#unknown(name)
      if (known[name] === true) continue
      const param = this.name(name)
      throw invalidRequest(`This simulator does not model the parameter ${param}.`, {
        code: 'simulated_not_modelled',
        param,
      })
    }
    return this
  }

  has(name: string): boolean {
    const value = this.#values[name]
    return value !== undefined && value !== null
  }

  string(name: string): string | undefined {
    if (!this.has(name)) return undefined
    const value = this.#values[name]
    const plain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    if (!plain) throw this.#invalid(name, 'parameter_invalid_string', 'Invalid string')
    if (value === '') {
      throw this.#invalid(name, 'parameter_invalid_empty', 'You passed an empty string for')
    }
    return String(value)
  }

  required(name: string): string {
    const value = this.string(name)
    if (value !== undefined) return value
    throw this.missing(name)
  }

  integer(name: string, min = 0): number | undefined {
    const text = this.string(name)
    if (text === undefined) return undefined
    const value = Number(text)
    if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(value) || value < min) {
      throw this.#invalid(name, 'parameter_invalid_integer', 'Invalid integer')
    }
    return value
  }

  requiredInteger(name: string, min = 0): number {
    const value = this.integer(name, min)
    if (value !== undefined) return value
    throw this.missing(name)
  }

  boolean(name: string): boolean | undefined {
    return this.oneOf(name, ['true', 'false']) && this.string(name) === 'true'
  }

  oneOf<Value extends string>(name: string, allowed: readonly Value[]): Value | undefined {
    const text = this.string(name)
    if (text === undefined) return undefined
    const value = allowed.find((each) => each === text)
    if (value !== undefined) return value
    throw invalidRequest(`Invalid ${this.name(name)}: must be one of ${allowed.join(', ')}`, {
      param: this.name(name),
    })
  }

  object(name: string): Params | undefined {
    if (!this.has(name)) return undefined
    const value = this.raw(name)
    if (value === undefined) throw this.#invalid(name, 'parameter_invalid_object', 'Invalid object')
    return new Params(value, this.name(name))
  }

  /** An object, unchanged. */
  raw(name: string): object | undefined {
    const value = this.#values[name]
    return typeof value === 'object' && value !== null ? value : undefined
  }

  list(name: string): Params[] {
    return this.#members(name).map((value, index) => new Params(value, `${this.name(name)}[${index}]`))
  }

  strings(name: string): string[] {
    return this.#members(name).map(String)
  }

  metadata(name: string): Metadata {
    const given = this.#values[name] ?? {}
    const entries = Object.entries(given).map(([key, value]) => [key, String(value)] as const)
    const tooLong = entries.find(([key, value]) => key.length > 40 || value.length > 500)
    if (entries.length > 50 || tooLong !== undefined) {
      throw invalidRequest(
        'Metadata holds at most 50 keys of 40 characters, with values of 500 characters.',
        {
          param: this.name(name),
        },
      )
    }
    return Object.fromEntries(entries)
  }

  url(name: string): string | undefined {
    const text = this.string(name)
    if (text === undefined || /^https?:\/\/[^/]/.test(text)) return text
    throw this.#invalid(name, 'url_invalid', 'Not a valid URL')
  }

  missing(name: string): Error {
    return this.#invalid(name, 'parameter_missing', 'Missing required param')
  }

  name(name: string): string {
    return this.#path === '' ? name : `${this.#path}[${name}]`
  }

  #members(name: string): unknown[] {
    const value = this.#values[name] ?? []
    return typeof value === 'object' ? Object.values(value) : [value]
  }

  #unknown(name: string): Error {
    const param = this.name(name)
    return invalidRequest(`Received unknown parameter: ${param}`, { code: 'parameter_unknown', param })
  }

  #invalid(name: string, code: string, message: string): Error {
    return invalidRequest(`${message}: ${this.name(name)}`, { code, param: this.name(name) })
  }
}

export type Tree = { [name: string]: string | Tree }

/** Reads Stripe's form encoding: `a[b][0][c]=v` is an object in an object; a list has the keys 0, 1, … or none. */
export function parseForm(text: string): Tree {
  const tree = emptyTree()
  for (const [name, value] of new URLSearchParams(text)) put(tree, pathOf(name), value)
  return tree
}

function pathOf(name: string): string[] {
  const head = name.split('[', 1)[0] ?? ''
  const rest = [...name.slice(head.length).matchAll(/\[([^[\]]*)\]/g)].map((match) => match[1] ?? '')
  return [head, ...rest]
}

function put(tree: Tree, path: string[], value: string): void {
  let at = tree
  for (const [depth, part] of path.entries()) {
    const key = part === '' && depth > 0 ? String(Object.keys(at).length) : part
    if (depth === path.length - 1) {
      at[key] = value
      return
    }
    const next = at[key]
    at = typeof next === 'object' ? next : (at[key] = emptyTree())
  }
}

function emptyTree(): Tree {
  // No prototype: a parameter may be called `constructor` or `__proto__`.
  return Object.create(null) as Tree
}
