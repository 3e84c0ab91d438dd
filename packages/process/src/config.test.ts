import { expect, test } from 'vitest'
import { z } from 'zod'
import { ConfigError, databaseUrl, listenAddress, readConfig, wholeNumber } from './config.ts'

const schema = z.object({
  GRPC_ADDRESS: listenAddress.describe('host:port to serve gRPC on'),
  TRIES: wholeNumber('times', 1).default(3).describe('how often'),
  DATABASE_URL: z.url().describe('the database'),
})

test('a variable that is set is parsed; one that is absent or empty gets its default', () => {
  expect(
    readConfig(schema, { GRPC_ADDRESS: '[::1]:7000', TRIES: '', DATABASE_URL: 'postgres://h/db' }),
  ).toEqual({
    GRPC_ADDRESS: { host: '::1', port: 7000 },
    TRIES: 3,
    DATABASE_URL: 'postgres://h/db',
  })
})

test('the error lists all invalid variables with their descriptions', () => {
  const read = () => readConfig(schema, { GRPC_ADDRESS: 'nowhere', TRIES: '0' })
  expect(read).toThrow(ConfigError)
  expect(read).toThrow(
    /GRPC_ADDRESS: must be host:port, an IPv6 address in brackets: \[::\]:8080 \(host:port to serve gRPC on\)/,
  )
  expect(read).toThrow(/TRIES: must be at least 1 \(how often\)/)
  expect(read).toThrow(/DATABASE_URL: is missing \(the database\)/)
})

test('the error contains no values, because they may be secrets', () => {
  expect(() =>
    readConfig(schema, { GRPC_ADDRESS: 'lsk_secret', DATABASE_URL: 'postgres://h/db' }),
  ).not.toThrow(/lsk_secret/)
})

test.each([
  ['postgres://catalog:p,w%40@db/catalog', true],
  ['postgresql://catalog@db-1:5432,db-2:5433/catalog?sslmode=require', true],
  ['postgres://catalog@[::1]:5432/catalog', true],
  ['mysql://db/catalog', false],
  ['postgres://catalog@db:port/catalog', false],
  ['db-1,db-2', false],
])('the URL of a database may name several servers: %s', (text, isValid) => {
  expect(databaseUrl.safeParse(text).success).toBe(isValid)
})

test.each([
  ['[::]:8080', { host: '::', port: 8080 }],
  ['[fe80::1%eth0]:1', { host: 'fe80::1%eth0', port: 1 }],
  ['0.0.0.0:0', { host: '0.0.0.0', port: 0 }],
  ['localhost:65535', { host: 'localhost', port: 65_535 }],
])('a service can listen on %s', (text, expected) => {
  expect(listenAddress.parse(text)).toEqual(expected)
})

test.each([
  ':::8080',
  '::1:8080',
  '[]:80',
  '[host]:80',
  '[127.0.0.1]:80',
  ':80',
  'host',
  'host:',
  'host:65536',
  'h:1:2',
  '[::1]',
])('%s is no address to listen on', (text) => {
  expect(listenAddress.safeParse(text).success).toBe(false)
})
