import { expect, test } from 'vitest'
import { ShareOut } from './queue-rounds.ts'

const listed = (all: string[]) => (after: string, most: number) =>
  Promise.resolve(all.filter((owner) => owner > after).slice(0, most))

test('each that waits gets its turn, and the next round begins after the last one', async () => {
  const share = new ShareOut(10, 2)
  const all = listed(['a', 'b', 'c'])
  expect(await share.next(all)).toEqual({ owners: ['a', 'b'], each: 5 })
  expect(await share.next(all)).toEqual({ owners: ['c', 'a'], each: 5 })
  expect(await share.next(all)).toEqual({ owners: ['b', 'c'], each: 5 })
})

test('one that waits alone gets all, and where fewer can be served the turns go on', async () => {
  const share = new ShareOut(10, 4)
  expect(await share.next(listed(['a']))).toEqual({ owners: ['a'], each: 10 })
  const all = listed(['a', 'b', 'c'])
  expect((await share.next(all, 1)).owners).toEqual(['a'])
  expect((await share.next(all, 1)).owners).toEqual(['b'])
  expect((await share.next(all, 1)).owners).toEqual(['c'])
  expect((await share.next(all, 1)).owners).toEqual(['a'])
})
