import { expect, test } from 'vitest'
import { z } from 'zod'
import { count } from '../fields/money.ts'
import { validate } from './validate.ts'

const body = z.strictObject({
  days: z.int(),
  count,
  name: z.string(),
  on: z.boolean(),
  list: z.array(z.string()),
})

test('the message of a value of the wrong type says in plain words what it must be', () => {
  const messages = [1.5, '3'].map((value) => {
    try {
      return validate(body, { days: value, count: value, name: 1, on: 1, list: {} }, 'body')
    } catch (error) {
      return (error as { errors: { message: string }[] }).errors.map(({ message }) => message)
    }
  })
  const others = ['must be a string', 'must be true or false', 'must be an array']
  const wholeNumber = 'must be a whole number'
  expect(messages).toEqual([
    [wholeNumber, wholeNumber, ...others],
    ['must be a number', wholeNumber, ...others],
  ])
})
