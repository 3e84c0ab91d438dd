import { expect, test } from 'vitest'
import { z } from 'zod'
import { address, ConfigError, readConfig, wholeNumber } from './config.ts'

const schema = z.object({
  GRPC_ADDRESS: address.describe('host:port to serve gRPC on'),
  TRIES: wholeNumber(1).default(3).describe('how often'),
  DATABASE_URL: z.url().describe('the database'),
})

test('a variable that is set is parsed; one that is absent or empty gets its default', () => {
  expect(
    readConfig(schema, { GRPC_ADDRESS: '[::1]:7000', TRIES: '', DATABASE_URL: 'postgres://h/db' }),
  ).toEqual({
    GRPC_ADDRESS: { host: '[::1]', port: 7000, text: '[::1]:7000' },
    TRIES: 3,
    DATABASE_URL: 'postgres://h/db',
  })
})

test('the error lists all invalid variables with their descriptions', () => {
  const read = () => readConfig(schema, { GRPC_ADDRESS: 'nowhere', TRIES: '0' })
  expect(read).toThrow(ConfigError)
  expect(read).toThrow(/GRPC_ADDRESS: must be host:port \(host:port to serve gRPC on\)/)
  expect(read).toThrow(/TRIES: must be at least 1 \(how often\)/)
  expect(read).toThrow(/DATABASE_URL: is missing \(the database\)/)
})

test('the error contains no values, because they may be secrets', () => {
  expect(() =>
    readConfig(schema, { GRPC_ADDRESS: 'lsk_secret', DATABASE_URL: 'postgres://h/db' }),
  ).not.toThrow(/lsk_secret/)
})
