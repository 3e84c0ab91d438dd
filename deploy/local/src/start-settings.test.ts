import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CHECKOUT } from '@licensing/local-servers/services'
import { serviceEnvironment } from '@licensing/local-servers/stack-environment'
import { readStartSettings } from './start-settings.ts'

test('without settings, the gateway has port 8080 and the data are in the checkout', () => {
  expect(readStartSettings({})).toMatchObject({
    dataDir: join(CHECKOUT, '.data'),
    gatewayPort: 8080,
    databaseUrl: undefined,
    natsUrl: undefined,
    stripeKeyGiven: false,
    processes: 'one',
    trySignIn: false,
  })
})

test('port 0 means a free port, and an empty variable counts as absent', () => {
  expect(readStartSettings({ GATEWAY_PORT: '0', DATABASE_URL: '', STRIPE_SECRET_KEY: '' })).toMatchObject({
    gatewayPort: undefined,
    databaseUrl: undefined,
    stripeKeyGiven: false,
  })
})

test('a relative DATA_DIR is relative to the folder in which npm was called', () => {
  expect(readStartSettings({ DATA_DIR: 'mine', INIT_CWD: '/somewhere' }).dataDir).toBe('/somewhere/mine')
})

test.each([
  [{ GATEWAY_PORT: '65536' }, 'GATEWAY_PORT must be a number'],
  [{ GATEWAY_PORT: 'http' }, 'GATEWAY_PORT must be a number'],
  [{ DATABASE_URL: 'mysql://x' }, 'DATABASE_URL must be postgres://'],
  [{ PROCESSES: 'many' }, 'PROCESSES must be one or separate'],
  [{ TRY_SIGN_IN: 'yes' }, 'TRY_SIGN_IN must be 1'],
  [{ TRY_SIGN_IN: '1', OIDC_ISSUER: 'https://id.example.com' }, 'set OIDC_ISSUER for your own'],
])('%j is refused', (env, message) => {
  expect(() => readStartSettings(env)).toThrow(message)
})

test('each service gets its own database and secrets, and the operator’s settings', () => {
  const addresses = {
    gateway: '127.0.0.1:1',
    grpc: { catalog: 'c:1', licensing: 'l:1', billing: 'b:1', notifier: 'n:1' },
    metrics: { catalog: 'c:2', licensing: 'l:2', billing: 'b:2', notifier: 'n:2', gateway: 'g:2' },
  }
  const settings = {
    addresses,
    databaseUrls: { catalog: 'dc', licensing: 'dl', billing: 'db', notifier: 'dn' },
    natsUrl: 'nats',
    encryptionKeys: { licensing: 'of licensing', notifier: 'of notifier' },
    bootstrapKey: 'bootstrap',
    portalSessionKey: 'sessions',
    operator: {
      RATE_LIMIT_PER_MINUTE: '7',
      STRIPE_SECRET_KEY: 'stripe',
      DATABASE_URL: 'postgres://superuser',
      BOOTSTRAP_API_KEY: 'given',
      npm_config_x: 'x',
      LOG_LEVEL: '',
    },
  }
  expect(serviceEnvironment('billing', settings)).toEqual({
    PUBLIC_URL: 'http://127.0.0.1:1',
    CALLER_CHECK: 'off',
    PROCESSOR_CLAIM: 'direct',
    STREAM_MAX_BYTES: '268435456',
    RATE_LIMIT_PER_MINUTE: '7',
    STRIPE_SECRET_KEY: 'stripe',
    METRICS_ADDRESS: 'b:2',
    GRPC_ADDRESS: 'b:1',
    DATABASE_URL: 'db',
    NATS_URL: 'nats',
    CATALOG_ADDRESS: 'c:1',
    LICENSING_ADDRESS: 'l:1',
    BILLING_ADDRESS: 'b:1',
    NOTIFIER_ADDRESS: 'n:1',
  })
  const gateway = serviceEnvironment('gateway', settings)
  expect(gateway).toMatchObject({
    HTTP_ADDRESS: '127.0.0.1:1',
    METRICS_ADDRESS: 'g:2',
    PORTAL_SESSION_KEY: 'sessions',
  })
  expect(Object.keys(gateway)).not.toContain('DATABASE_URL')
  expect(serviceEnvironment('catalog', settings)).toMatchObject({ BOOTSTRAP_API_KEY: 'bootstrap' })
  expect(serviceEnvironment('licensing', settings)).toMatchObject({ ENCRYPTION_KEY: 'of licensing' })
  expect(serviceEnvironment('notifier', settings)).toMatchObject({ ENCRYPTION_KEY: 'of notifier' })
})
