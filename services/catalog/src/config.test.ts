import { readConfig } from '@licensing/process/config'
import { expect, test } from 'vitest'
import { catalogConfig } from './config.ts'

const needed = {
  GRPC_ADDRESS: '127.0.0.1:7001',
  DATABASE_URL: 'postgres://catalog@localhost/catalog',
  NATS_URL: 'nats://localhost:4222',
  LICENSING_ADDRESS: '127.0.0.1:7002',
  NOTIFIER_ADDRESS: '127.0.0.1:7003',
}

test('fees and the address for alerts have defaults', () => {
  expect(readConfig(catalogConfig, needed)).toMatchObject({
    FEE_BPS: 100,
    FEE_FIXED_MINOR: 0,
    ALERT_EMAIL: 'alerts@localhost',
  })
})

test('an invalid key, fee and address are all reported at once', () => {
  const wrong = {
    BOOTSTRAP_API_KEY: 'lsk_short',
    FEE_BPS: '10001',
    FEE_FIXED_MINOR: '-1',
    ALERT_EMAIL: 'nobody',
  }
  for (const name of Object.keys(wrong)) {
    expect(() => readConfig(catalogConfig, { ...needed, ...wrong })).toThrow(name)
  }
})
