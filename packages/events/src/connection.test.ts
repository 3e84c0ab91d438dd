import { expect, test } from 'vitest'
import { serversOf } from './connection.ts'

test('user and password of the address are told to the client beside it', () => {
  expect(serversOf('nats://licensing:p%40ss@a:4222, nats://b:4223')).toEqual({
    servers: ['a:4222', 'b:4223'],
    user: 'licensing',
    pass: 'p@ss',
  })
})

test('without a user there is only the address', () => {
  expect(serversOf('nats://[::1]:4222,b:4222')).toEqual({ servers: ['[::1]:4222', 'b:4222'] })
})
