import { z } from 'zod'
import { invalidRequest } from './errors.ts'

/** Readers for parameters. In a form all values are text, and a list is an object with the keys 0, 1, …. */
export const text = z.string().min(1, 'You passed an empty string for')

export const integer = (min = 0) =>
  z.preprocess(
    (value) => (typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value),
    z.int('Invalid integer').min(min, 'Invalid integer'),
  )

export const flag = z.preprocess(
  (value) => (typeof value === 'string' ? value === 'true' : value),
  z.boolean(),
)

export const webUrl = text.regex(/^https?:\/\/[^/]/, 'Not a valid URL')

export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.preprocess((value) => (typeof value === 'object' && value ? Object.values(value) : value), z.array(item))

export const metadata = z.preprocess(
  (value) => ({ ...Object(value) }) as unknown,
  z.record(z.string().max(40), z.string().max(500)).refine((pairs) => Object.keys(pairs).length <= 50),
)

export type Shape = Record<string, z.ZodType>

/** Reads parameters; null counts as absent. A parameter that is not in the shape is refused, never ignored. */
export function read<Known extends Shape>(shape: Known, values: unknown): z.output<z.ZodObject<Known>> {
  const given = Object.entries(Object(values) as object).filter(([, value]) => value !== null)
  const result = z.strictObject(shape).safeParse(Object.fromEntries(given))
  if (result.success) return result.data
  const { issues } = result.error
  const unknown = issues.find(({ code }) => code === 'unrecognized_keys')
  throw refusal(unknown ?? issues[0]!, Object.fromEntries(given))
}

/** A problem in Stripe's words. */
function refusal(issue: z.core.$ZodIssue, values: object): Error {
  if (issue.code === 'unrecognized_keys') {
    const param = nameOf([...issue.path, issue.keys[0]!])
    const message = `Received unknown parameter: ${param} (the simulator has only a part of Stripe's)`
    return invalidRequest(message, { code: 'parameter_unknown', param })
  }
  const param = nameOf(issue.path)
  const value = issue.path.reduce(
    (tree, name) => (Object(tree) as Record<PropertyKey, unknown>)[name],
    values as unknown,
  )
  if (value === undefined) {
    return invalidRequest(`Missing required param: ${param}`, { code: 'parameter_missing', param })
  }
  return invalidRequest(`${issue.message}: ${param}`, { code: 'parameter_invalid', param })
}

function nameOf([first = '', ...rest]: PropertyKey[]): string {
  return String(first) + rest.map((part) => `[${String(part)}]`).join('')
}

export type Tree = { [name: string]: string | Tree }

/** Reads Stripe's form encoding: `a[b][0][c]=v` is an object in an object; a list has the keys 0, 1, … or none. */
export function parseForm(encoded: string): Tree {
  const tree = emptyTree()
  for (const [name, value] of new URLSearchParams(encoded)) put(tree, pathOf(name), value)
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
