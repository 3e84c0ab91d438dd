import { createHmac, randomUUID } from 'node:crypto'
import { bodySchemaOf, type Operation, type Parameter } from '../document.ts'
import type { Dice } from './dice.ts'
import { hostile, hostileText, jsonText, mutated, valueOf } from './values.ts'
import type { World } from './world.ts'

export interface FuzzRequest {
  operation: Operation
  method: string
  /** Path and query, percent-encoded. */
  target: string
  headers: Record<string, string>
  body: Buffer | undefined
  chunked: boolean
}

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY']
const mediaTypes = [
  'application/json; charset=utf-8',
  'application/json;charset=latin1',
  'APPLICATION/JSON',
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'json',
  ';',
  'application/problem+json',
]

export function requestFor(dice: Dice, world: World, operation: Operation): FuzzRequest {
  world.turnTo(dice, lastKindIn(operation))
  const method = dice.chance(4) ? dice.one(methods) : operation.method
  const path = pathFor(dice, world, operation)
  const body = bodyFor(dice, world, operation)
  const headers = headersFor(dice, world, operation, { path, body })
  return {
    operation,
    method,
    target: path + queryFor(dice, world, operation),
    headers,
    body: method === 'HEAD' || method === 'TRACE' ? undefined : body,
    chunked: dice.chance(10),
  }
}

function pathFor(dice: Dice, world: World, { path, parameters = [] }: Operation): string {
  return path.replaceAll(/\{([^}]+)\}/g, (_, name: string) => {
    const parameter = parameters.find((each) => each.name === name)
    return encoded(pathValue(dice, world, parameter))
  })
}

/** The kind of object that a path is about; for the path of an application, an object of the application. */
function lastKindIn({ parameters = [] }: Operation): string {
  const kinds = parameters.filter(({ in: place, name }) => place === 'path' && name !== 'key').map(prefixOf)
  const last = kinds.at(-1) ?? 'app'
  return last === 'app' ? 'pln' : last
}

function exampleOf(parameter: Parameter | undefined): string {
  const [example] = parameter?.schema.examples ?? []
  return typeof example === 'string' ? example : 'x_'
}

function prefixOf(parameter: Parameter | undefined): string {
  return exampleOf(parameter).split('_', 1)[0]!
}

function pathValue(dice: Dice, world: World, parameter: Parameter | undefined): string {
  const example = exampleOf(parameter)
  const prefix = prefixOf(parameter)
  const named = parameter?.name === 'key' ? String(world.valueFor(dice, 'key')) : undefined
  const usual = prefix === 'app' ? world.application : (named ?? world.any(dice, prefix))
  if (dice.chance(90)) return usual ?? example
  return dice.one([
    () => example,
    () => world.anyId(dice),
    () => world.any(dice, prefix)?.toUpperCase() ?? '',
    () => `${prefix}_7zzzzzzzzzzzzzzzzzzzzzzzzz`,
    () => hostileText(dice).slice(0, 4_000),
  ])()
}

function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

function queryFor(dice: Dice, world: World, { parameters = [] }: Operation): string {
  const known = parameters.filter((parameter) => parameter.in === 'query' && dice.chance(40))
  const parts = known.flatMap(({ name, schema }) => {
    const value = dice.chance(75) ? valueOf(dice, world, schema, name) : hostile(dice)
    const isObject = schema.type === 'object' && typeof value === 'object' && value !== null
    const members = isObject ? Object.entries(value) : []
    const named = members.map(([member, entry]): [string, unknown] => [`${name}[${member}]`, entry])
    return (isObject ? named : [[name, value] as const]).map(([parameter, sent]) => {
      const text = typeof sent === 'string' ? sent : jsonText(sent)
      return `${encoded(parameter)}=${encoded(text.slice(0, 4_000))}`
    })
  })
  if (dice.chance(5))
    parts.push(dice.one(['limit=1&limit=2', '%zz=1', 'unknown=1', '__proto__=1', 'cursor=%00', '&&=']))
  return parts.length === 0 ? '' : `?${parts.join('&')}`
}

function bodyFor(dice: Dice, world: World, operation: Operation): Buffer | undefined {
  if (operation.operationId === 'receiveStripeEvent') return Buffer.from(jsonText(processorEvent(dice)))
  const schema = bodySchemaOf(operation)
  if (operation.method === 'GET' && !dice.chance(3)) return undefined
  if (!schema && !dice.chance(25)) return undefined
  let value = schema ? valueOf(dice, world, schema, operation.operationId) : {}
  for (let times = dice.one([0, 0, 0, 1, 1, 2, 4]); times > 0; times--) value = mutated(dice, value)
  const text = jsonText(value)
  if (!dice.chance(6)) return Buffer.from(text.toWellFormed() === text ? text : escaped(text))
  return dice.one([
    () => Buffer.alloc(0),
    () => Buffer.from(text.slice(0, dice.upTo(text.length))),
    () => Buffer.from([0xff, 0xfe, ...Buffer.from(text)]),
    () => Buffer.from(`\ufeff${text}`),
    () => Buffer.from(text, 'utf16le'),
    () => Buffer.from(`${text}${text}`),
    () => Buffer.alloc(1_200_000, 0x20),
    () => Buffer.from([0, ...Buffer.from(text)]),
  ])()
}

/** Escapes unpaired surrogates, because they have no UTF-8 encoding. */
function escaped(text: string): string {
  return text.replaceAll(/[\ud800-\udfff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16)}`)
}

const eventTypes = [
  'checkout.session.completed',
  'checkout.session.expired',
  'charge.succeeded',
  'charge.refunded',
  'refund.created',
  'charge.dispute.created',
  'invoice.paid',
  'invoice.payment_failed',
  'customer.subscription.deleted',
  'account.application.deauthorized.not',
  'unknown',
]

function processorEvent(dice: Dice): unknown {
  const event = {
    id: `evt_${randomUUID()}`,
    object: 'event',
    account: 'acct_1Fuzz',
    created: Math.floor(Date.now() / 1_000),
    livemode: false,
    type: dice.one(eventTypes),
    data: {
      object: { id: `obj_${dice.upTo(50)}`, amount: 100, currency: 'eur', status: 'succeeded', metadata: {} },
    },
  }
  return dice.chance(20) ? event : mutated(dice, event)
}

function headersFor(
  dice: Dice,
  world: World,
  operation: Operation,
  { path, body }: { path: string; body: Buffer | undefined },
): Record<string, string> {
  const { all, others } = world.apiKeys
  const key = dice.chance(90) ? all : dice.one([...others, 'lsk_nonsense', '', 'x'.repeat(5_000)])
  const isActivation = operation.security.some((scheme) => 'activationToken' in scheme)
  const activation = path.split('/')[3] ?? ''
  const token = isActivation && dice.chance(90) ? (world.tokenOf(activation) ?? 'x') : key
  const headers: Record<string, string> = {}
  if (dice.chance(98)) headers['authorization'] = `${dice.chance(98) ? 'Bearer' : 'Basic'} ${token}`
  if (body) headers['content-type'] = dice.chance(94) ? 'application/json' : dice.one(mediaTypes)
  if (operation.operationId === 'receiveStripeEvent') headers['stripe-signature'] = signature(dice, body)
  if (dice.chance(30) || operation.parameters?.some(({ in: place }) => place === 'header')) {
    headers['idempotency-key'] = idempotencyKey(dice)
  }
  for (const [name, values] of Object.entries(oddHeaders))
    if (dice.chance(3)) headers[name] = dice.one(values)
  return headers
}

const oddHeaders = {
  'x-request-id': ['mine', '', 'a b', 'é', 'x'.repeat(128), 'x'.repeat(129), '<script>'],
  'if-none-match': ['*', '"x"', 'W/"x"', '"'],
  accept: ['text/html', '*/*', 'nonsense', 'application/xml'],
  traceparent: ['00-0-0-0', 'nonsense', `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`],
  'x-forwarded-for': ['127.0.0.1', 'nonsense', '::1, 10.0.0.1'],
  expect: ['100-continue', 'nonsense'],
  'content-encoding': ['gzip', 'nonsense'],
  range: ['bytes=0-1'],
  'x-http-method-override': ['DELETE'],
  origin: ['https://evil.example', 'null'],
  cookie: ['a=b; __proto__=1', '\u00ff'],
} as const

function idempotencyKey(dice: Dice): string {
  if (dice.chance(70)) return randomUUID()
  return dice.one([
    `key-${dice.upTo(5)}`,
    '',
    'k'.repeat(255),
    'k'.repeat(256),
    'é',
    '\u00ff'.repeat(255),
    ' ',
  ])
}

function signature(dice: Dice, body: Buffer | undefined): string {
  if (dice.chance(5)) return dice.one(['', 't=1,v1=00', 'nonsense', 't=,v1='])
  const at = Math.floor(Date.now() / 1_000)
  const hmac = createHmac('sha256', 'whsec_of_the_test').update(`${at}.`)
  return `t=${at},v1=${hmac.update(body ?? '').digest('hex')}`
}

/** The request as a shell command, without the API key. */
export function asCommand(request: FuzzRequest, gatewayUrl: string, world: World): string {
  const headers = Object.entries(request.headers).map(([name, value]) => {
    const shown = value.replaceAll(world.apiKeys.all, '$KEY')
    return `-H ${name === 'authorization' ? `"${name}: ${shown}"` : quoted(`${name}: ${shown}`)}`
  })
  const body = request.body && bodyArgument(request.body)
  return [`curl -sS -X ${request.method}`, ...headers, body, quoted(gatewayUrl + request.target)]
    .filter(Boolean)
    .join(' ')
}

const maxShown = 4_000

function bodyArgument(body: Buffer): string {
  const text = body.toString('utf8')
  const isText = Buffer.from(text).equals(body) && !text.includes('\0')
  if (body.length > maxShown) return `--data-binary '…${body.length} bytes that begin ${text.slice(0, 200)}'`
  return isText
    ? `--data-binary ${quoted(text)}`
    : `--data-binary @<(echo ${body.toString('base64')} | base64 -d)`
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
