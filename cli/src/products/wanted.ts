import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml'
import type { Document, Node, Scalar, YAMLMap } from 'yaml'
import type { Definition, Plan, PlanField } from './catalogue.ts'

export interface WantedEntitlement {
  readonly key: string
  readonly kind: Definition['kind'] | undefined
  readonly displayName: string | undefined
  readonly value: string | undefined
  readonly deleted: boolean
  readonly line: number
  /** The path in the file, for example `entitlements[0]`. */
  readonly place: string
}

export interface WantedPlan {
  readonly code: string
  readonly name: string | undefined
  readonly status: Plan['status'] | undefined
  readonly values: ReadonlyMap<string, { readonly value: string; readonly line: number }>
  /** Null: no trials. Undefined: the trials stay as they are. */
  readonly trialDays: number | null | undefined
  /** All entries of the plan. Undefined: the entries stay as they are. */
  readonly metadata: Readonly<Record<string, string>> | undefined
  readonly line: number
  readonly place: string
}

export interface Wanted {
  readonly entitlements: readonly WantedEntitlement[]
  readonly plans: readonly WantedPlan[]
}

/** An error in the file. */
export interface FileProblem {
  readonly line: number
  /** The path in the file, for example `plans[0].values.seats`. Empty if the error is not in a value. */
  readonly key: string
  readonly message: string
}

const key = {
  pattern: /^[a-z][a-z0-9_]{0,63}$/,
  message: 'must match ^[a-z][a-z0-9_]*$, 64 characters at most',
}
const code = {
  pattern: /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/,
  message: 'must match ^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$',
}
const name = { pattern: /^[^\0\p{Cs}]{1,200}$/u, message: 'must be 1 to 200 characters' }
const value = {
  pattern: /^(?:true|false|0|-?[1-9][0-9]{0,14})$/,
  message: 'must be true or false, or a whole number',
}
const trialDays = {
  pattern: /^(?:[0-9]|[1-9][0-9]|[12][0-9]{2}|3[0-5][0-9]|36[0-6])$/,
  message: 'must be a whole number from 1 to 366, or 0 for no trials',
}
const metadataName = /^[A-Za-z0-9_.-]{1,40}$/
const metadataValue = { pattern: /^[^\0\p{Cs}]{0,500}$/u, message: 'must be at most 500 characters' }
const flag = { pattern: /^(?:true|false)$/, message: 'must be true or false' }
const kind = oneOf<Definition['kind']>({ feature: true, limit: true })
const status = oneOf<Plan['status']>({ active: true, retired: true })

/** The rule of a closed set. If the API adds a member, the code does not compile until the member is listed here. */
function oneOf<Member extends string>(members: Record<Member, true>): Rule {
  const names = Object.keys(members)
  return { pattern: new RegExp(`^(?:${names.join('|')})$`), message: `must be ${names.join(' or ')}` }
}

const planNames: Record<PlanField | 'status' | 'values', true> = {
  code: true,
  name: true,
  status: true,
  values: true,
  trial_days: true,
  metadata: true,
}

type Rule = { readonly pattern: RegExp; readonly message: string }

/** Reads the file: its entitlements and plans, and all flaws of its form. */
export function readWanted(text: string): { wanted: Wanted; flaws: FileProblem[] } {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, version: '1.2', schema: 'core' })
  const flaws: FileProblem[] = document.errors.map(({ code, pos, message }) => ({
    line: lines.linePos(pos[0]).line,
    key: '',
    message:
      code === 'MULTIPLE_DOCS'
        ? 'a second YAML document begins here: put each into a file of its own'
        : message.split('\n')[0]!.replace(/ at line \d+, column \d+:?$/, ''),
  }))
  const wanted: { entitlements: WantedEntitlement[]; plans: WantedPlan[] } = { entitlements: [], plans: [] }
  if (flaws.length > 0) return { wanted, flaws }
  const reader = createReader(document, flaws, lines)
  const root = reader.fields(document.contents, '', ['entitlements', 'plans'])
  for (const [at, item] of reader.items(root.get('entitlements'), 'entitlements').entries()) {
    const place = `entitlements[${at}]`
    const fields = reader.fields(item, place, ['key', 'kind', 'display_name', 'default', 'deleted'])
    const read = (field: string, rule: Rule) => reader.text(fields.get(field), `${place}.${field}`, rule)
    const found = reader.required(fields.get('key'), item, `${place}.key`, key)
    const rest = {
      kind: read('kind', kind) as WantedEntitlement['kind'],
      displayName: read('display_name', name),
      value: read('default', value),
      deleted: read('deleted', flag) === 'true',
      line: reader.line(item),
      place,
    }
    if (found !== undefined) wanted.entitlements.push({ key: found, ...rest })
  }
  for (const [at, item] of reader.items(root.get('plans'), 'plans').entries()) {
    const place = `plans[${at}]`
    const fields = reader.fields(item, place, Object.keys(planNames))
    const read = (field: string, rule: Rule) => reader.text(fields.get(field), `${place}.${field}`, rule)
    const entries = (field: string) =>
      fields.has(field) ? reader.fields(fields.get(field), `${place}.${field}`) : new Map<string, Node>()
    const found = reader.required(fields.get('code'), item, `${place}.code`, code)
    const values = new Map<string, { value: string; line: number }>()
    for (const [of, node] of entries('values')) {
      const text = reader.required(node, node, `${place}.values.${of}`, value)
      if (text !== undefined) values.set(of, { value: text, line: reader.line(node) })
    }
    const metadata: [string, string][] = []
    for (const [of, node] of entries('metadata')) {
      const inFile = `${place}.metadata.${of}`
      const entry = reader.required(node, node, inFile, metadataValue)
      if (entry !== undefined) metadata.push([of, entry])
      if (metadataName.test(of)) continue
      flaws.push({
        line: reader.line(node),
        key: inFile,
        message: `the name must match ${metadataName.source}`,
      })
    }
    const days = read('trial_days', trialDays)
    const rest = {
      name: read('name', name),
      status: read('status', status) as WantedPlan['status'],
      values,
      trialDays: days === undefined ? undefined : Number(days) || null,
      metadata: fields.has('metadata') ? Object.fromEntries(metadata) : undefined,
      line: reader.line(item),
      place,
    }
    if (found !== undefined) wanted.plans.push({ code: found, ...rest })
  }
  return { wanted, flaws }
}

function createReader(document: Document, flaws: FileProblem[], lines: LineCounter) {
  const line = (node: Node | null | undefined) => lines.linePos(node?.range?.[0] ?? 0).line
  const flaw = (node: Node | null | undefined, key: string, message: string) =>
    void flaws.push({ line: line(node), key, message })
  const isEmpty = (node: Node | null | undefined) => !node || (isScalar(node) && node.value === null)
  /** The node at a place. An alias is replaced by the node of its anchor. */
  const at = (node: Node | null | undefined) => (isAlias(node) ? node.resolve(document) : node)

  function fields(place: Node | null | undefined, key: string, known?: readonly string[]): Map<string, Node> {
    const node = at(place)
    if (isEmpty(node)) return new Map()
    if (!isMap(node)) {
      flaw(place, key, 'must be a map of names to values')
      return new Map()
    }
    return new Map(
      (node as YAMLMap<Node, Node>).items.flatMap(({ key: named, value: of }): [string, Node][] => {
        const text = isScalar(named) ? String(named.value) : ''
        if (known === undefined || known.includes(text)) return [[text, of ?? named]]
        flaw(named, key, `unknown field ${text}; known: ${known.join(', ')}`)
        return []
      }),
    )
  }

  function items(place: Node | null | undefined, key: string): Node[] {
    const node = at(place)
    if (isEmpty(node)) return []
    if (isSeq(node)) return node.items as Node[]
    flaw(place, key, 'must be a list')
    return []
  }

  /** A scalar as text, as it is written: `default: true` and `default: "true"` are the same. */
  function text(place: Node | undefined, key: string, rule: Rule): string | undefined {
    const node = at(place)
    if (isEmpty(node)) return undefined
    const found = isScalar(node) ? written(node) : undefined
    if (found !== undefined && rule.pattern.test(found)) return found
    flaw(place, key, found === undefined ? rule.message : `${rule.message}, not ${quoted(found)}`)
    return undefined
  }

  /** @param owner the node that a missing value is reported for */
  function required(place: Node | undefined, owner: Node, key: string, rule: Rule): string | undefined {
    if (isEmpty(at(place))) flaw(owner, key, 'is missing')
    return text(place, key, rule)
  }

  return { line, fields, items, text, required }
}

/** A value in an error, shortened. */
export const quoted = (text: string) => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)

/** The text in the file. A plan code 1.10 would otherwise become the number 1.1. */
function written({ value: read, source }: Scalar): string {
  return typeof read === 'number' && source !== undefined ? source : String(read)
}
