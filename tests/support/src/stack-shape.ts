import type { NatsServer } from '@licensing/local-servers/nats'
import type { DatabaseService, ServiceName } from '@licensing/local-servers/services'
import type { ApiClient } from './api-client.ts'
import type { HttpsReceiver } from './https-receiver.ts'
import type { StripeSimulator } from './stripe-simulator.ts'
import type { TestProcess } from './test-process.ts'

export interface StackOptions {
  /** The operator's settings, such as WEBHOOK_BACKOFF_SECONDS or SWEEP_INTERVAL_SECONDS. */
  environment?: Record<string, string>
  /** The number of processes of each service, by default 1. */
  replicas?: Partial<Record<ServiceName, number>>
  /** A receiver that gets webhooks: the stack trusts its certificate. Deliveries to 127.0.0.1 are always allowed. */
  receiver?: Pick<HttpsReceiver, 'caFile'>
  /** Starts a Stripe simulator that sends its events to the gateway. */
  simulator?: boolean
  /** The release that its services run at first; see `startService`. */
  release?: string
  /** URL of a PostgreSQL superuser; by default the PostgreSQL of the test run. */
  postgresUrl?: string
  /** The folder for the logs; by default one that is removed with the stack. */
  logFolder?: string
  /** A restarted process is not waited for. */
  restartsAtOnce?: boolean
  /**
   * The address at which a component, such as `billing-1`, reaches another, such as `catalog-2`, `postgres`, `nats`,
   * `processor` or `gateway`; by default `address`. For proxies between them.
   */
  through?: (from: string, to: string, address: string) => Promise<string>
}

/** A whole system: four services and the gateway, with their own databases and NATS. */
export interface Stack extends AsyncDisposable {
  /** URL of the first gateway, without a slash at the end. */
  readonly gatewayUrl: string
  /** URLs of all gateways. */
  readonly gatewayUrls: string[]
  readonly accountId: string
  readonly appId: string
  /** An API key with all four scopes. */
  readonly apiKey: string
  /** Calls of the REST API with `apiKey`. */
  readonly api: ApiClient
  /** The processes of each service, one per replica. */
  readonly processes: Record<ServiceName, TestProcess[]>
  readonly databaseUrls: Record<DatabaseService, string>
  readonly nats: NatsServer
  /** Present if the options request it. */
  readonly simulator: StripeSimulator | undefined
  /** Only with compose: runs shell commands in which `dc` is docker compose, as in the runbook. @returns their output */
  readonly runCommands?: (commands: string) => Promise<string>
  /** On compose: runs `licensing-admin` in the catalog's container. */
  readonly runAdmin?: (args: string[]) => Promise<Ended>
}

/** The output of a program and its exit code. */
export interface Ended {
  code: number
  stdout: string
  stderr: string
}
