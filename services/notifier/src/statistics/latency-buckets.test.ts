import { expect, test } from 'vitest'
import { bucketOf, latencyWithin } from './latency-buckets.ts'

const countsOf = (latencies: number[]) => {
  const counts: number[] = []
  for (const ms of latencies) {
    const bucket = bucketOf(ms)
    while (counts.length <= bucket) counts.push(0)
    counts[bucket]! += 1
  }
  return counts
}

test('a bucket gives any latency up to a week to within 10 %', () => {
  for (let ms = 1; ms < 7 * 86_400_000; ms = Math.ceil(ms * 1.003)) {
    const said = latencyWithin(countsOf([ms]), 0.5)!
    expect(Math.abs(said - ms) / ms, String(ms)).toBeLessThanOrEqual(0.1)
  }
})

test('the median and the 95th percentile are found in the buckets', () => {
  const latencies = Array.from({ length: 1_000 }, (_, i) => 10 + i)
  const counts = countsOf(latencies)
  expect(latencyWithin(counts, 0.5)! / 509).toBeCloseTo(1, 0)
  expect(Math.abs(latencyWithin(counts, 0.5)! - 509) / 509).toBeLessThan(0.1)
  expect(Math.abs(latencyWithin(counts, 0.95)! - 959) / 959).toBeLessThan(0.1)
  expect(latencyWithin(countsOf([...Array<number>(19).fill(5), 1_000]), 0.95)).toBe(5)
})

test('without deliveries there is no percentile', () => {
  expect(latencyWithin([], 0.5)).toBeUndefined()
  expect(latencyWithin([0, 0], 0.95)).toBeUndefined()
})

test('a negative latency counts as zero, and one of years is in the last bucket', () => {
  expect(bucketOf(-5_000)).toBe(0)
  expect(bucketOf(1e15)).toBe(255)
})
