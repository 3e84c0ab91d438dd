import { createLicensingBackend } from '@licensing/sdk/backend'
import type { BackendOptions, LicensingBackend } from '@licensing/sdk/backend'
import { printable } from '@licensing/terminal/printable'
import { Refusal } from './failures.ts'
import type { Output } from './output.ts'
import type { Flags, Settings } from './settings.ts'
import { ask, isTerminal } from './terminal.ts'
import type { Terminal } from './terminal.ts'

/** The dependencies of a command. */
export interface Context {
  readonly env: NodeJS.ProcessEnv
  readonly out: Output
  readonly terminal: Terminal
  /** Aborted when the program is asked to stop. */
  readonly signal: AbortSignal
  /** The options of every command. */
  flags(): Flags
  /** The service that the settings name. A command calls this first, so that wrong settings are reported as wrong usage. */
  service(): Promise<Service>
  /** The service at the address of these settings. */
  at(settings: Settings): Service
  /** Asks for confirmation on a terminal, unless `--yes` is given. Without a terminal it does not ask. */
  confirm(question: string, options: { readonly yes?: true | undefined }): Promise<void>
  /** Makes the exit code 1, for a command that ran to its end and has a failure to report. */
  fail(): void
  /** Registers a function that runs if the program is stopped during the command. It returns the exit code. */
  onStop(stop: () => ExitCode): void
}

export type ExitCode = 0 | 1 | 2

/** The address of the service, and the API key. */
export type Connection = Pick<BackendOptions, 'baseUrl' | 'apiKey'>

export interface Service {
  readonly settings: Settings
  readonly connection: Connection
  readonly backend: LicensingBackend
  /** The id of the application to use. */
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

/** The application of --app, else the application that the key is bound to, else the account's only application. */
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
