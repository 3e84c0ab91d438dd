import { expect, test } from 'vitest'
import { Outage } from './outage.ts'

const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
const startingUp = Object.assign(new Error('the database system is starting up'), { code: '57P03' })
const timeout = Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' })
const defect = new Error('defect')

test('an outage is reported once until the work succeeds, and every other failure each time', () => {
  const outage = new Outage()
  const news = [refused, startingUp, refused, defect, defect, timeout, timeout, startingUp, refused].map(
    (error) => outage.isNews(error),
  )
  expect(news).toEqual([true, false, false, true, true, true, true, true, false])
  outage.over()
  expect(outage.isNews(refused)).toBe(true)
})
