import { expect, test } from 'vitest'
import {
  isDatabaseOutage,
  isDatabaseUnavailable,
  isRetryable,
  isSetupProblem,
  isValueRefused,
  problemOf,
  problemOfState,
} from './problems.ts'

const failed = (code: string, more: object = {}) => Object.assign(new Error('failed'), { code, ...more })

// States of PostgreSQL, by what follows from them: a second list, in the order of PostgreSQL's own.
const waits = `
  08000 08003 08006 08001 08004 08007 08P01 25006 25P03 25P04 26000 28000 28P01 3D000 3F000 40000 40002 40001 40003 40P01
  42501 42703 42883 42P01 42704 42P05 53000 53100 53200 53300 53400 55000 55006 55P02 55P03 55P04 57000 57014 57P01 57P02
  57P03 57P04 57P05 LM001 58000 58030 58P01 58P02 58P03 72000 F0000 F0001 XX000 XX001 XX002`
const refusesValue = `
  22000 2202E 22021 22008 22012 22005 2200B 22022 22015 2201E 22018 22007 22019 2200D 22025 22P06 22010 22023 2201B 22009
  2200C 2200G 22004 22002 22003 2200H 22026 22001 22011 22027 22024 2200F 22P02 22P03 22P04 22P05 23502 23514 44000 54000
  54001 54011 54023`
const isOurs = `
  03000 09000 0A000 0B000 0F000 0L000 0P000 0Z000 20000 21000 23000 23001 23503 23505 23P01 24000 25000 25001 25P01 25P02
  27000 2B000 2D000 2F000 34000 38000 39000 3B000 42000 42601 42846 42803 42P20 42P19 42830 42602 42622 42939 42804 42P18
  42P21 42P22 42809 42P02 42P03 42P04 42P06 42P07 42712 42710 42702 42725 42P08 42P09 42P10 42611 42P11 42P12 42P13 42P14
  42P15 42P16 42P17 HV000 P0000 P0001 P0002 P0003 P0004`
const statesOf = (list: string) => list.trim().split(/\s+/)

test.each(statesOf(waits))('the work waits after %s', (state) => {
  expect(isDatabaseUnavailable(failed(state))).toBe(true)
  expect(isValueRefused(failed(state))).toBe(false)
})

test.each(statesOf(refusesValue))('%s refuses a value, so that the work does not wait', (state) => {
  expect(isDatabaseUnavailable(failed(state))).toBe(false)
  expect(isValueRefused(failed(state))).toBe(true)
})

test.each(statesOf(isOurs))('%s is an error of our own code, so that the work does not wait', (state) => {
  expect(isDatabaseUnavailable(failed(state))).toBe(false)
  expect(problemOf(failed(state))).toBe('code')
})

test('each row of the table is tested', () => {
  const tested = [...statesOf(waits), ...statesOf(refusesValue)]
  for (const state of Object.keys(problemOfState))
    expect(tested.some((other) => other.startsWith(state))).toBe(true)
})

test('a statement whose prepared plan does not fit a changed table waits; another unsupported feature is our own error', () => {
  expect(isDatabaseUnavailable(failed('0A000', { routine: 'RevalidateCachedQuery' }))).toBe(true)
  expect(isDatabaseUnavailable(failed('0A000', { routine: 'transformStmt' }))).toBe(false)
})

test('an outage is a server that cannot be reached, cannot write, or has no space or memory', () => {
  const outages = [
    '08006',
    '25006',
    '53100',
    '53200',
    '53400',
    '57P01',
    '58030',
    'ECONNREFUSED',
    'ANSWER_TIMEOUT',
    'CERT_HAS_EXPIRED',
  ]
  for (const code of outages) expect(isDatabaseOutage(failed(code))).toBe(true)
  for (const code of ['57014', '55P03', '40001', '42P01', '28P01', '23505', 'ENOENT'])
    expect(isDatabaseOutage(failed(code))).toBe(false)
})

test('only a transaction that lost a race is repeated at once', () => {
  const codes = ['40001', '40P01', '57014', '53100', '23505', 'ECONNRESET']
  expect(codes.filter((code) => isRetryable(failed(code)))).toEqual(['40001', '40P01'])
})

test('a start does not wait for a login, a database or a table that an operator has to repair', () => {
  const repaired = ['28P01', '3D000', '42501', '42P01', 'XX001', 'SELF_SIGNED_CERT_IN_CHAIN']
  for (const code of repaired) expect(isSetupProblem(failed(code))).toBe(true)
  for (const code of ['53100', '57P03', 'ECONNREFUSED', 'CERT_HAS_EXPIRED'])
    expect(isSetupProblem(failed(code))).toBe(false)
})

test('an error without a code of the database or the network is none of the database', () => {
  for (const error of [
    new Error('defect'),
    failed('ENOENT'),
    failed('UNSAFE_TRANSACTION'),
    null,
    'text',
    { code: 7 },
  ])
    expect(problemOf(error)).toBeUndefined()
})
