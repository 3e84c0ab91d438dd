import type { Schema } from '../document.ts'
import type { Dice } from './dice.ts'
import type { World } from './world.ts'

/** The value of a body before serialization. A `Raw` in it is text that JSON.stringify cannot write. */
export type Value = unknown

const raws = [
  '1e400',
  '-0',
  '1.0',
  '9007199254740993',
  '99999999999999999999999999999',
  '0.1e-400',
  '{"a":1,"a":2}',
  '{"__proto__":{"admin":true}}',
  '[['.repeat(2_000) + ']]'.repeat(2_000),
  '{"a":'.repeat(5_000) + '1' + '}'.repeat(5_000),
]
const names = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  '',
  '\0',
  'then',
  'length',
]
const texts = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\ud83d',
  'x\ude00y',
  '😀',
  '😀'.repeat(200),
  '😀'.repeat(255),
  '😀'.repeat(256),
  'a'.repeat(255),
  'a'.repeat(256),
  'é'.repeat(2_048),
  'x'.repeat(100_000),
  '\u202e\ufeff\u2028',
  '../../etc/passwd',
  "'; drop table licences; --",
  '%00',
  '{{7*7}}',
  '9999-12-31T23:59:59.999Z',
  '0001-01-01T00:00:00Z',
  '-271821-04-20T00:00:00Z',
  '+275760-09-13T00:00:00.000Z',
  '2026-02-30T00:00:00Z',
  '2026-11-21T00:00:00+23:59',
  'null',
  '1e3',
  'NaN',
]
const numbers = [0, -1, 1, 0.5, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, -(2 ** 63), 1e21, 1e308]

/** Text that is inserted into JSON unchanged. */
export class Raw {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export function hostile(dice: Dice): Value {
  switch (dice.upTo(9)) {
    case 0:
      return null
    case 1:
      return dice.one([true, false])
    case 2:
      return dice.one(numbers)
    case 3:
      return dice.number()
    case 4:
    case 5:
      return dice.one(texts)
    case 6:
      return dice.text()
    case 7:
      return new Raw(dice.one(raws))
    case 8:
      return dice.one([[], {}, [[]], [null], { [dice.one(names)]: 1 }])
    default:
      return dice.json()
  }
}

export function hostileText(dice: Dice): string {
  return dice.chance(50) ? dice.one(texts) : dice.text()
}

/** A value for a schema, in most cases valid. */
export function valueOf(dice: Dice, world: World, schema: Schema, name: string): Value {
  const known = world.valueFor(dice, name)
  if (known !== undefined && dice.chance(90)) return known
  if (schema.anyOf) return valueOf(dice, world, dice.one(schema.anyOf), name)
  if (schema.enum) return dice.one(schema.enum)
  switch ([schema.type].flat()[0]) {
    case 'object':
      return objectOf(dice, world, schema)
    case 'array':
      return Array.from({ length: (schema.minItems ?? 0) + dice.upTo(3) }, () =>
        valueOf(dice, world, schema.items ?? {}, name),
      )
    case 'integer':
      return dice.chance(80)
        ? Math.min(schema.maximum ?? 1_000, (schema.minimum ?? 0) + dice.upTo(1_000))
        : dice.one([schema.minimum ?? 0, schema.maximum ?? 0])
    case 'boolean':
      return dice.chance(50)
    case 'null':
      return null
    default:
      return dice.chance(60) ? `${name} ${dice.upTo(50)}` : hostileText(dice)
  }
}

function objectOf(dice: Dice, world: World, { properties = {}, required = [] }: Schema): Value {
  const chosen = Object.entries(properties).filter(([name]) => required.includes(name) || dice.chance(50))
  return Object.fromEntries(chosen.map(([name, schema]) => [name, valueOf(dice, world, schema, name)]))
}

/** A copy of the value with a hostile value at a random place. */
export function mutated(dice: Dice, value: Value): Value {
  if (typeof value !== 'object' || value === null || value instanceof Raw || dice.chance(10))
    return hostile(dice)
  if (Array.isArray(value)) {
    const list: Value[] = [...value]
    const at = dice.upTo(list.length)
    if (dice.chance(10) && list.length > 0) return Array.from({ length: 600 }, () => list[0])
    list.splice(at, at < list.length ? 1 : 0, at < list.length ? mutated(dice, list[at]) : hostile(dice))
    return list
  }
  const entries = Object.entries(value)
  if (entries.length === 0 || dice.chance(15)) {
    return fromEntries([...entries, [dice.chance(50) ? dice.one(names) : hostileText(dice), hostile(dice)]])
  }
  const at = dice.upTo(entries.length - 1)
  if (dice.chance(15)) return fromEntries(entries.filter((_, index) => index !== at))
  return fromEntries(entries.map(([key, held], index) => [key, index === at ? mutated(dice, held) : held]))
}

/** `Object.fromEntries` defines members, so that `__proto__` becomes an ordinary member. */
function fromEntries(entries: [string, Value][]): Value {
  return Object.fromEntries(entries)
}

export function jsonText(value: Value): string {
  if (value instanceof Raw) return value.text
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, held]) => `${JSON.stringify(name)}:${jsonText(held)}`)
  return `{${members.join(',')}}`
}
