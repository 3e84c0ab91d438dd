import { readdirSync, readFileSync } from 'node:fs'
import type { LicenceClient, LicenceClientOptions } from '../src/product/client.ts'
import type { LicenceState } from '../src/product/state.ts'

/** The shape of `sdk/vectors/*.json`: `sdk/vectors/README.md` says what it means. */
export interface Vector {
  readonly name: string
  readonly why: string
  readonly client?: Partial<ClientFields>
  readonly clock: string
  readonly store: unknown
  /** The constructor throws. */
  readonly refused?: boolean
  readonly store_fails?: 'read' | 'write' | 'never'
  readonly steps: readonly Step[]
}

export interface ClientFields {
  readonly base_url: string
  readonly app_id: string
  readonly root_key: string | readonly string[] | null
  readonly licence_key: string | null
  readonly fingerprint: string
  readonly host: string
  readonly product_version: string
  /** The nonce of every request for a token. */
  readonly nonce: string
}

export interface Step {
  readonly clock?: string
  /** Written into the store first, as another process would. */
  readonly store?: unknown
  readonly restart?: Partial<ClientFields>
  readonly call?:
    | 'ready'
    | 'activate'
    | 'activate_offline'
    | 'start_trial'
    | 'refresh'
    | 'check'
    | 'migrate'
    | 'release'
    | 'deactivate'
    | 'call_home'
  readonly argument?: string
  readonly answers?: readonly ScriptedAnswer[]
  readonly state: Readonly<Record<string, unknown>>
  /** The result of `createOfflineRequest`. */
  readonly offline_request?: unknown
  readonly features?: Readonly<Record<string, boolean>>
  readonly limits?: Readonly<Record<string, number>>
  /** Whether the licence covers a release of this time. */
  readonly covers?: Readonly<Record<string, boolean>>
}

export interface ScriptedAnswer {
  readonly request: string
  readonly with_headers?: Readonly<Record<string, unknown>>
  readonly without_headers?: readonly string[]
  readonly with_json?: Readonly<Record<string, unknown>>
  readonly response:
    | { readonly fails: 'unreachable' | 'never' }
    | {
        readonly status: number
        readonly headers?: Readonly<Record<string, string>>
        readonly json?: unknown
        readonly text?: string
      }
}

interface Document {
  readonly alg?: string
  readonly kid: string
  readonly signed_by: string
  readonly payload: unknown
  readonly jws: string
}

interface Shared {
  readonly client: ClientFields
  readonly keys: Readonly<Record<string, { readonly x: string; readonly kid: string }>>
  readonly values: Readonly<Record<string, unknown>>
  readonly documents: Readonly<Record<string, Document>>
}

const folder = new URL('../../vectors/', import.meta.url)

function read(file: string): unknown {
  return JSON.parse(readFileSync(new URL(file, folder), 'utf8'))
}

export const shared = read('shared.json') as Shared

/** The options of a client with these fields. */
export function optionsOf(fields: ClientFields): LicenceClientOptions {
  return {
    baseUrl: fields.base_url,
    appId: fields.app_id,
    rootKey: fields.root_key as string,
    licenceKey: fields.licence_key ?? undefined,
    fingerprint: fields.fingerprint,
    host: fields.host,
    productVersion: fields.product_version,
  }
}

/** Makes the call of a step; with no name it only reads the state. */
export function call(
  client: LicenceClient,
  name: Step['call'],
  argument = '',
): Promise<LicenceState> | LicenceState {
  switch (name) {
    case undefined:
      return client.state
    case 'migrate':
      return client.migrateAsync(argument)
    case 'activate_offline':
      return client.activateOffline(argument)
    case 'start_trial':
      return client.startTrial(argument)
    case 'call_home':
      return client.callHome()
    default:
      return client[name]()
  }
}

/** A state in the notation of the vectors. */
export function inNotation({ problem, ...state }: LicenceState): Readonly<Record<string, unknown>> {
  const words = Object.entries(state).map(([key, value]) => [
    key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    value,
  ])
  return { ...Object.fromEntries(words), problem: problem?.code ?? null }
}

/** A delivery of `webhooks.json`. */
export interface Delivery {
  readonly name: string
  readonly clock: string
  readonly body?: string
  readonly body_base64?: string
  readonly signature?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly secrets: readonly string[]
  readonly tolerance_seconds?: number
  /** Null: it is authentic. */
  readonly reason: string | null
}

export const deliveries = read('webhooks.json') as readonly Delivery[]

/** All vectors of clients by file, with their references replaced by the values. */
export const vectorFiles: ReadonlyMap<string, readonly Vector[]> = new Map(
  readdirSync(folder)
    .filter((file) => file.endsWith('.json') && !['shared.json', 'webhooks.json'].includes(file))
    .map((file) => [file, resolve(read(file)) as Vector[]]),
)

function resolve(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(resolve)
  if (typeof value !== 'object' || value === null) return value
  const { $value, $jws, $bearer, $lines } = value as Record<string, string | undefined> & {
    $lines?: unknown[]
  }
  if ($value !== undefined) return resolve(found(shared.values, $value))
  if ($jws !== undefined) return found(shared.documents, $jws).jws
  if ($bearer !== undefined) return `Bearer ${found(shared.documents, $bearer).jws}`
  if ($lines !== undefined) return $lines.map(resolve).join('\n')
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, resolve(entry)]))
}

function found<T>(table: Readonly<Record<string, T>>, name: string): T {
  const entry = table[name]
  if (entry === undefined) throw new Error(`shared.json has no ${name}`)
  return entry
}
