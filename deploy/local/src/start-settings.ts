import { join, resolve } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'

/** The settings of `npm start`, from its environment. */
export interface StartSettings {
  /** Absolute path. */
  dataDir: string
  /** If undefined, a free port. */
  gatewayPort: number | undefined
  /** The operator's PostgreSQL and NATS. If undefined, embedded servers are started. */
  databaseUrl: string | undefined
  natsUrl: string | undefined
  bootstrapKey: string | undefined
  /** Gateway and services run in the process of npm start, or each in a process of its own. */
  processes: 'one' | 'separate'
  /** A real Stripe is used, so the simulator is not started. */
  stripeKeyGiven: boolean
  /** People sign in at a simulated identity provider. */
  trySignIn: boolean
  /** The complete environment, which is passed to the services. */
  operator: Record<string, string | undefined>
}

/** The data folder: DATA_DIR, relative to the folder in which npm was called, or `.data` in the checkout. */
export function dataDirOf(env: Record<string, string | undefined>): string {
  const given = env['DATA_DIR'] ?? ''
  return given === '' ? join(CHECKOUT, '.data') : resolve(env['INIT_CWD'] ?? '', given)
}

/**
 * Reads the environment of `npm start`. An empty variable counts as absent.
 *
 * @throws Error that names an invalid variable
 */
export function readStartSettings(env: Record<string, string | undefined>): StartSettings {
  const given = (name: string) => (env[name] === '' ? undefined : env[name])
  const port = given('GATEWAY_PORT') ?? '8080'
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new Error(`GATEWAY_PORT must be a number from 0 (a free port) to 65535, not "${port}"`)
  }
  const databaseUrl = given('DATABASE_URL')
  if (databaseUrl !== undefined && !/^postgres(ql)?:\/\//.test(databaseUrl)) {
    throw new Error('DATABASE_URL must be postgres://user:password@host:port/database')
  }
  const processes = given('PROCESSES') ?? 'one'
  if (processes !== 'one' && processes !== 'separate') {
    throw new Error(`PROCESSES must be one or separate, not "${processes}"`)
  }
  const trySignIn = given('TRY_SIGN_IN') ?? '0'
  if (trySignIn !== '0' && trySignIn !== '1') {
    throw new Error(`TRY_SIGN_IN must be 1 (a simulated identity provider) or 0, not "${trySignIn}"`)
  }
  if (trySignIn === '1' && given('OIDC_ISSUER') !== undefined) {
    throw new Error('set OIDC_ISSUER for your own identity provider, or TRY_SIGN_IN=1 for a simulated one')
  }
  return {
    dataDir: dataDirOf(env),
    gatewayPort: Number(port) === 0 ? undefined : Number(port),
    databaseUrl,
    natsUrl: given('NATS_URL'),
    bootstrapKey: given('BOOTSTRAP_API_KEY'),
    processes,
    stripeKeyGiven: given('STRIPE_SECRET_KEY') !== undefined,
    trySignIn: trySignIn === '1',
    operator: env,
  }
}
