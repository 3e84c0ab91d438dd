import type { BackendOptions, LicensingBackend } from '@licensing/sdk/backend'
import type { Output } from './output.ts'

export interface Option {
  readonly type: 'string' | 'boolean'
  /** The placeholder of its value in the help: `URL`. */
  readonly value?: string
  readonly help: string
}

export interface Command {
  /** One word or two: `licences find`. */
  readonly name: string
  /** The one argument that it takes, as the help names it. */
  readonly argument?: string
  readonly summary: string
  readonly options: Readonly<Record<string, Option>>
  /** Without the program's name. */
  readonly examples: readonly string[]
  run(call: Call): Promise<ExitCode>
}

export type ExitCode = 0 | 1 | 2

/** The call of a command. */
export interface Call {
  /** Empty if the command takes no argument. */
  readonly argument: string
  /** The value of an option; undefined if it is absent. */
  option(name: string): string | undefined
  flag(name: string): boolean
  readonly env: NodeJS.ProcessEnv
  readonly out: Output
  /** The address of the service, and the API key. */
  readonly connection: Pick<BackendOptions, 'baseUrl' | 'apiKey'>
  readonly backend: LicensingBackend
  /** The application that the command is about. */
  appId(): Promise<string>
  /** Aborted when the program is to end. */
  readonly signal: AbortSignal
}
