import { expect, test } from 'vitest'
import { isDomain, isHostName, problemOfMachineName, readMachineName } from './host-name.ts'

test.each([
  ['BÜRO-PC', 'büro-pc', false],
  ['(none)', '(none)', false],
  ['MBP.local.', 'mbp.local', true],
  ['Build-7.Example.com', 'build-7.example.com', true],
  ['Build_7', 'build_7', false],
  ['Anna’s MacBook Pro', 'anna’s macbook pro', false],
  ['.', '.', false],
  ['local..', 'local..', false],
  ['büro.', 'büro.', false],
  ['10.0.0.1', '10.0.0.1', false],
  ['fe80::1', 'fe80::1', false],
  ['a.0x1f', 'a.0x1f', false],
  ['-a', '-a', false],
  [' ', ' ', false],
  ['x'.repeat(63), 'x'.repeat(63), true],
  ['x'.repeat(64), 'x'.repeat(64), false],
  ['李的电脑', '李的电脑', false],
])('the machine %j is stored as %j; it is a host name: %j', (given, stored, isHost) => {
  expect(problemOfMachineName(given)).toBeUndefined()
  expect(readMachineName(given)).toBe(stored)
  expect(readMachineName(stored)).toBe(stored)
  expect([isHostName(stored), isDomain(stored), isDomain(`*.${stored}`)]).toEqual([isHost, isHost, isHost])
})

test.each([
  '',
  'a\0',
  'a\n',
  'a\u001B[31m',
  'a\u007F',
  'a\u0085',
  '\ud83d',
  'x'.repeat(254),
  '😀'.repeat(254),
])('the machine %j is refused', (given) => {
  expect(problemOfMachineName(given)).toEqual(expect.any(String))
})
