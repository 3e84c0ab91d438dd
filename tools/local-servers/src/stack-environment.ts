import { freePort } from './ports.ts'
import { DATABASE_SERVICES, type DatabaseService, type ServiceName } from './services.ts'

/** `host:port` of each listener. A service serves /readyz at its `metrics` address. */
export interface StackAddresses {
  gateway: string
  grpc: Record<DatabaseService, string>
  metrics: Record<ServiceName, string>
}

export interface StackSettings {
  addresses: StackAddresses
  databaseUrls: Record<DatabaseService, string>
  natsUrl: string
  /** `ENCRYPTION_KEY` of each service that stores secrets. */
  encryptionKeys: Record<'licensing' | 'notifier', string>
  bootstrapKey: string
  /** 32 bytes, base64url. */
  portalSessionKey: string
  /** The operator's environment. Each service gets it, except for the variables excluded below. */
  operator: Record<string, string | undefined>
}

/** Secrets of the operator that only one service needs. The others do not get them. */
const ONE_SERVICE_ALONE: Record<string, ServiceName> = {
  STRIPE_SECRET_KEY: 'billing',
  STRIPE_WEBHOOK_SECRET: 'billing',
  SMTP_URL: 'notifier',
  PORTAL_SESSION_KEY: 'gateway',
  OIDC_CLIENT_SECRET: 'gateway',
}

// Variables of the shell, the package manager or a test runner, which would change how libraries in a service behave.
const NOT_FOR_SERVICES = /^(npm_|PG|VITEST|NODE_OPTIONS$|NODE_ENV$|NODE_CHANNEL|DATA_DIR$|DATABASE_URL$)/

/** Free addresses on 127.0.0.1 for a whole stack. */
export async function freeAddresses(gatewayPort?: number): Promise<StackAddresses> {
  const ofEach = async <Service extends string>(services: readonly Service[]) => {
    const each = services.map(async (service) => [service, `127.0.0.1:${await freePort()}`] as const)
    return Object.fromEntries(await Promise.all(each)) as Record<Service, string>
  }
  return {
    gateway: `127.0.0.1:${gatewayPort ?? (await freePort())}`,
    grpc: await ofEach(DATABASE_SERVICES),
    metrics: await ofEach([...DATABASE_SERVICES, 'gateway']),
  }
}

/** The whole environment of one process of the stack. */
export function serviceEnvironment(service: ServiceName, settings: StackSettings): Record<string, string> {
  const { addresses, databaseUrls, encryptionKeys, bootstrapKey, portalSessionKey, operator } = settings
  const own: Record<ServiceName, Record<string, string>> = {
    gateway: {
      HTTP_ADDRESS: addresses.gateway,
      PORTAL_SESSION_KEY: operator['PORTAL_SESSION_KEY'] || portalSessionKey,
    },
    catalog: { BOOTSTRAP_API_KEY: bootstrapKey },
    licensing: { ENCRYPTION_KEY: encryptionKeys.licensing },
    billing: {},
    notifier: { ENCRYPTION_KEY: encryptionKeys.notifier },
  }
  return {
    PUBLIC_URL: `http://${addresses.gateway}`,
    CALLER_CHECK: 'off',
    // NATS reserves this much of the free disk space for each stream.
    STREAM_MAX_BYTES: String(256 * 1024 ** 2),
    ...(service === 'billing' && { PROCESSOR_CLAIM: 'direct' }),
    ...passedThrough(service, operator),
    METRICS_ADDRESS: addresses.metrics[service],
    NATS_URL: settings.natsUrl,
    CATALOG_ADDRESS: addresses.grpc.catalog,
    LICENSING_ADDRESS: addresses.grpc.licensing,
    BILLING_ADDRESS: addresses.grpc.billing,
    NOTIFIER_ADDRESS: addresses.grpc.notifier,
    ...(service === 'gateway'
      ? {}
      : { GRPC_ADDRESS: addresses.grpc[service], DATABASE_URL: databaseUrls[service] }),
    ...own[service],
  }
}

function passedThrough(
  service: ServiceName,
  operator: Record<string, string | undefined>,
): Record<string, string> {
  const given: Record<string, string> = {}
  for (const [name, value] of Object.entries(operator)) {
    if (value === undefined || value === '' || NOT_FOR_SERVICES.test(name)) continue
    if ((ONE_SERVICE_ALONE[name] ?? service) === service) given[name] = value
  }
  delete given['BOOTSTRAP_API_KEY']
  return given
}
