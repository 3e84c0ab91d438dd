import { expect, test } from 'vitest'
import { Shares } from './queue-rounds.ts'

const listed = (all: string[]) => (after: string, max: number) =>
  Promise.resolve(all.filter((owner) => owner > after).slice(0, max))

test('each owner gets a share, and the next round starts after the last owner of this one', async () => {
  const share = new Shares(10, 2)
  const all = listed(['a', 'b', 'c'])
  expect(await share.next(all)).toEqual({ owners: ['a', 'b'], each: 5 })
  expect(await share.next(all)).toEqual({ owners: ['c', 'a'], each: 5 })
  expect(await share.next(all)).toEqual({ owners: ['b', 'c'], each: 5 })
})

test('a single owner gets the whole round, and a lower limit of owners continues where the last round stopped', async () => {
  const share = new Shares(10, 4)
  expect(await share.next(listed(['a']))).toEqual({ owners: ['a'], each: 10 })
  const all = listed(['a', 'b', 'c'])
  expect((await share.next(all, 1)).owners).toEqual(['a'])
  expect((await share.next(all, 1)).owners).toEqual(['b'])
  expect((await share.next(all, 1)).owners).toEqual(['c'])
  expect((await share.next(all, 1)).owners).toEqual(['a'])
})
