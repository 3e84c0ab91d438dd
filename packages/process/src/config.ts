import { isIPv6 } from 'node:net'
import { z } from 'zod'
import { parsePeerKeys } from './peer-keys.ts'

/** The environment is invalid. `message` lists every invalid variable with its description, one per line. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

/**
 * Reads a typed configuration from environment variables. An empty variable counts as absent.
 *
 * @param schema one zod object; its keys are the variables' names, each with `.describe()`
 * @throws ConfigError that lists every invalid variable
 * @example readConfig(z.object({ PORT: z.coerce.number().default(8080).describe('port to listen on') }))
 */
export function readConfig<S extends z.ZodObject>(
  schema: S,
  env: Record<string, string | undefined> = process.env,
): z.output<S> {
  const given = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  )
  const result = schema.safeParse(given)
  if (result.success) return result.data
  const lines = result.error.issues.map((issue) => {
    const name = String(issue.path[0] ?? '')
    const described = schema.shape[name] as z.ZodType | undefined
    const problem = given[name] === undefined ? 'is missing' : issue.message
    return `  ${name}: ${problem}${described?.description ? ` (${described.description})` : ''}`
  })
  throw new ConfigError(`invalid environment:\n${lines.join('\n')}`)
}

/** `host:port` of a service to reach, or several in the format of gRPC's name resolvers. */
export const address = z
  .string()
  .regex(/^.+:[0-9]{1,5}$/, 'must be host:port')
  .meta({ unit: 'host:port' })

/**
 * `host:port` to listen on. An IPv6 address is in brackets: `[::]:8080` listens on all addresses of both families.
 *
 * @example readConfig(z.object({ HTTP_ADDRESS: listenAddress }), { HTTP_ADDRESS: '[::1]:80' }) // { host: '::1', port: 80 }
 */
export const listenAddress = z
  .string()
  .transform((text, context) => {
    const [, bracketed, name, digits] = /^(?:\[([^\]]+)\]|([^:[\]]+)):([0-9]{1,5})$/.exec(text) ?? []
    const port = Number(digits)
    if ((isIPv6(bracketed ?? '') || name !== undefined) && port <= 65_535)
      return { host: bracketed ?? name!, port }
    context.addIssue({ code: 'custom', message: 'must be host:port, an IPv6 address in brackets: [::]:8080' })
    return z.NEVER
  })
  .meta({ unit: 'host:port' })

/** A whole number of at least `min`. The reference of all variables (docs/operations/configuration.md) has its unit. */
export const wholeNumber = (unit: string, min = 0) =>
  z
    .string()
    .regex(/^[0-9]+$/, 'must be a whole number')
    .transform(Number)
    .refine((value) => value >= min, `must be at least ${min}`)
    .meta({ unit })

/** A text that a parser reads, which throws if the text is invalid. */
export const parsedBy = <Out>(parse: (text: string) => Out) =>
  z.string().transform((text, context) => {
    try {
      return parse(text)
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message })
      return z.NEVER
    }
  })

/** PostgreSQL's URL. Its hosts are separated by commas. */
export const databaseUrl = parsedBy((text) => {
  const withOneHost = text.replace(/^(postgres(?:ql)?:\/\/(?:[^/?]*@)?[^/?,]*)[^/?]*/, '$1')
  if (!/^postgres(ql)?:/.test(text) || !URL.canParse(withOneHost)) {
    throw new Error(
      'must be postgres://user:password@host:port/database, with commas between several host:port',
    )
  }
  return text
}).meta({ unit: 'URL' })

const peerKeys = parsedBy(parsePeerKeys)

/** Configuration of a process that calls the services. */
export const callConfig = {
  CALL_KEYS: peerKeys
    .optional()
    .describe('name:key of each service that this one calls, separated by commas'),
  CALLER_CHECK: z
    .enum(['off', 'accept', 'require'])
    .default('require')
    .describe(
      'require: calls between the services carry the name of their caller, signed; accept: calls without a name pass too, while keys are being introduced; off: nothing is checked',
    ),
}

/** Configuration of every process. */
export const processConfig = {
  METRICS_ADDRESS: listenAddress.optional().describe('host:port of /metrics, /healthz and /readyz'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('lowest level that is logged'),
  ...callConfig,
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url().optional().describe('OTLP/HTTP collector that traces are sent to'),
}

/** Configuration of every service. */
export const serviceConfig = {
  ...processConfig,
  CALLER_KEYS: peerKeys
    .optional()
    .describe(
      'name:key of each process that calls this one, separated by commas; two of a name while it is changed',
    ),
  GRPC_ADDRESS: listenAddress.describe('host:port to serve gRPC on'),
  DATABASE_URL: databaseUrl.describe(
    'postgres://… of this service’s own database, with commas between the host:port of several servers',
  ),
  DATABASE_CONNECTIONS: wholeNumber('connections', 2).default(20).describe('most connections to PostgreSQL'),
  NATS_URL: z.string().describe('nats://host:port, several separated by commas'),
  NATS_PASSWORD: z
    .string()
    .optional()
    .describe('password of the NATS user that has the name of this service, where NATS_URL names no user'),
  STREAM_MAX_BYTES: wholeNumber('bytes', 1024 * 1024)
    .default(512 * 1024 ** 2)
    .describe('most bytes that the stream of this service’s events may take; its oldest messages go first'),
  EVENT_LOG_MAX_BYTES: wholeNumber('bytes', 1024 * 1024)
    .default(8 * 1024 ** 3)
    .describe(
      'size of the event log in PostgreSQL above which events are removed that a consumer has not confirmed',
    ),
  EVENT_PARTITIONS: z
    .enum(['8', '16', '32', '64', '128'])
    .default('8')
    .transform(Number)
    .describe('partitions of this service’s event log; a log that has more keeps them'),
  STREAM_REPLICAS: wholeNumber('copies', 1).default(1).describe('copies of each stream that NATS keeps'),
}
