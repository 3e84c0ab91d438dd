import { createLicensingBackend } from '@licensing/sdk/backend'
import type { BackendOptions, LicensingBackend } from '@licensing/sdk/backend'
import { printable } from '@licensing/terminal/printable'
import { Refusal } from './failures.ts'
import type { Output } from './output.ts'
import type { Flags, Settings } from './settings.ts'
import { ask, isTerminal } from './terminal.ts'
import type { Terminal } from './terminal.ts'

/** What a command works with. */
export interface Context {
  readonly env: NodeJS.ProcessEnv
  readonly out: Output
  readonly terminal: Terminal
  /** Aborted when the program is to end. */
  readonly signal: AbortSignal
  /** The options of every command. */
  flags(): Flags
  /** The service that the settings name. A command asks for it first, since wrong settings are wrong usage. */
  service(): Promise<Service>
  /** The service of other settings. */
  at(settings: Settings): Service
  /** Asks on a terminal, unless the answer was given in advance with `--yes`. Elsewhere nothing is asked. */
  confirm(question: string, options: { readonly yes?: true | undefined }): Promise<void>
  /** A command that did its work, and has to report a failure. */
  fail(): void
  /** Called if the program is ended while the command runs; gives the exit code. */
  onStop(stop: () => ExitCode): void
}

export type ExitCode = 0 | 1 | 2

/** The address of the service, and the API key. */
export type Connection = Pick<BackendOptions, 'baseUrl' | 'apiKey'>

export interface Service {
  readonly settings: Settings
  readonly connection: Connection
  readonly backend: LicensingBackend
  /** The application that the command is about. */
  appId(): Promise<string>
}

/** A call that hangs fails within two minutes. Retries are safe: each POST has an `Idempotency-Key`. */
export function serviceOf(settings: Settings): Service {
  const connection = { baseUrl: settings.url, apiKey: settings.apiKey }
  const backend = createLicensingBackend({ ...connection, timeoutMs: 30_000, retries: 2 })
  return { settings, connection, backend, appId: () => findApplication(backend, settings.appId) }
}

export async function confirmOn(
  terminal: Terminal,
  question: string,
  { yes }: { readonly yes?: true | undefined },
): Promise<void> {
  if (yes === true || !isTerminal(terminal)) return
  const answer = await ask(terminal, `${printable(question)} [y/N] `)
  if (/^\s*y(?:es)?\s*$/i.test(answer ?? '')) return
  throw new Refusal('not_confirmed', 'not confirmed: nothing was changed')
}

/** The application of --app, else the one of the key, else the account's only one. */
async function findApplication(backend: LicensingBackend, asked: string | undefined): Promise<string> {
  if (asked !== undefined) return asked
  const { app_id: bound } = await backend.get('/v1/api-keys/self')
  if (bound !== null) return bound
  const apps: { id: string; name: string }[] = []
  for await (const { id, name } of backend.rows('/v1/apps')) apps.push({ id, name })
  const [only] = apps
  if (only === undefined) {
    throw new Refusal(
      'application_required',
      'the account has no application yet: create one in the portal under Settings, or with POST /v1/apps',
    )
  }
  if (apps.length === 1) return only.id
  throw new Refusal(
    'application_required',
    'the account has several applications: choose one with --app or LICENSING_APP',
    { applications: apps },
    apps.map(({ id, name }) => `  ${id}  ${name}`),
  )
}
