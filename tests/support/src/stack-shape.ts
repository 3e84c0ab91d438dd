import type { NatsServer } from '@licensing/local-servers/nats'
import type { DatabaseService, ServiceName } from '@licensing/local-servers/services'
import type { ApiClient } from './api-client.ts'
import type { HttpsReceiver } from './https-receiver.ts'
import type { StripeSimulator } from './stripe-simulator.ts'
import type { TestProcess } from './test-process.ts'

export interface StackOptions {
  /** What an operator would set, such as WEBHOOK_BACKOFF_SECONDS or SWEEP_INTERVAL_SECONDS. */
  environment?: Record<string, string>
  /** Processes of each service; 1 when absent. */
  replicas?: Partial<Record<ServiceName, number>>
  /** Its certificate is trusted, so that webhooks can go to it. Deliveries to 127.0.0.1 are admitted in any case. */
  receiver?: Pick<HttpsReceiver, 'caFile'>
  /** A Stripe simulator whose events arrive at the gateway. */
  simulator?: boolean
  /** What its services run at first; see `startService`. */
  release?: string
  /** A PostgreSQL as its superuser; that of the test run when absent. */
  postgresUrl?: string
}

/** A whole system of its own: four services and the gateway, own databases, own NATS. */
export interface Stack extends AsyncDisposable {
  /** Of the first gateway, without a slash at the end. */
  readonly gatewayUrl: string
  /** Of all gateways. */
  readonly gatewayUrls: string[]
  readonly accountId: string
  readonly appId: string
  /** Has all four scopes. */
  readonly apiKey: string
  /** Calls of the REST API with `apiKey`. */
  readonly api: ApiClient
  /** The processes of each service, one per replica. */
  readonly processes: Record<ServiceName, TestProcess[]>
  readonly databaseUrls: Record<DatabaseService, string>
  readonly nats: NatsServer
  /** Present when it was asked for. */
  readonly simulator: StripeSimulator | undefined
  /** On compose: runs shell commands in which `dc` is docker compose, as in the runbook. */
  readonly runCommands?: (commands: string) => Promise<void>
  /** On compose: runs `licensing-admin` in the catalog's container. */
  readonly runAdmin?: (args: string[]) => Promise<Ended>
}

/** What a program printed, and its exit code. */
export interface Ended {
  code: number
  stdout: string
  stderr: string
}
