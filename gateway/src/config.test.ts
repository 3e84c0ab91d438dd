import { ConfigError, readConfig } from '@licensing/process/config'
import { expect, test } from 'vitest'
import { gatewayConfig, identityProviderOf } from './config.ts'

const usual = {
  HTTP_ADDRESS: '127.0.0.1:8080',
  CATALOG_ADDRESS: 'catalog:1',
  LICENSING_ADDRESS: 'licensing:1',
  BILLING_ADDRESS: 'billing:1',
  NOTIFIER_ADDRESS: 'notifier:1',
}
const oidc = {
  OIDC_ISSUER: 'https://id.example.com',
  OIDC_CLIENT_ID: 'portal',
  OIDC_CLIENT_SECRET: 'secret-text',
}

function problemOf(env: Record<string, string>): string {
  try {
    readConfig(gatewayConfig, { ...usual, ...env })
    return ''
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
}

test('people sign in at a provider if all three variables are set, and it has a name of its own or the usual one', () => {
  const read = (env: Record<string, string>) =>
    identityProviderOf(readConfig(gatewayConfig, { ...usual, ...env }))
  expect(read({})).toBeUndefined()
  expect(read(oidc)).toEqual({
    issuer: 'https://id.example.com',
    clientId: 'portal',
    clientSecret: 'secret-text',
    name: 'single sign-on',
  })
  expect(read({ ...oidc, OIDC_NAME: 'Acme' })?.name).toBe('Acme')
})

test.each(Object.keys(oidc) as (keyof typeof oidc)[])(
  'without %s alone, the gateway refuses to start and names it',
  (missing) => {
    const { [missing]: _, ...others } = oidc
    for (const env of [others, { ...oidc, [missing]: '' }]) {
      expect(problemOf(env)).toContain(`${missing}: is missing`)
      expect(problemOf(env)).not.toContain('secret-text')
    }
    const alone = problemOf({ [missing]: oidc[missing] })
    for (const name of Object.keys(others)) expect(alone).toContain(`${name}: is missing`)
  },
)

test.each([
  'http://id.example.com',
  'http://10.0.0.7',
  'http://localhost.example.com',
  'http://127.0.0.1.example.com',
  'ftp://id.example.com',
  'id.example.com',
  'https://id.example.com?tenant=x',
  'https://user:password@id.example.com',
])('the issuer %s is refused', (issuer) => {
  expect(problemOf({ ...oidc, OIDC_ISSUER: issuer })).toContain('OIDC_ISSUER: must be an https URL')
})

test.each([
  'http://127.0.0.1:8090',
  'http://localhost:8090/realms/x',
  'http://[::1]:8090',
  'https://id.example.com/realms/x',
])('the issuer %s is accepted', (issuer) => {
  expect(problemOf({ ...oidc, OIDC_ISSUER: issuer })).toBe('')
})
