import { expect, test } from 'vitest'
import { atLeast, atMost, beside, ratiosOf, worseThan } from './report.ts'
import type { Figure, Section } from './report.ts'

const floor: Figure = { name: 'echo', value: 100, unit: '/s' }
const run = (...figures: Figure[]): Section[] => [{ title: 'issue', figures: [floor, ...figures], notes: [] }]

test('the comparison lists ratios that are more than a fifth worse than in the baseline', () => {
  const before = ratiosOf(
    run(
      atLeast('issue', 80, '/s', floor, 0.75),
      atMost('p99', 200, 'ms', floor, 4),
      beside('detail', 50, '/s', floor),
      beside('suspend', 200, 'ms', floor),
    ),
  )
  const after = (issue: number, p99: number, detail: number, suspend: number) =>
    worseThan(
      before,
      run(
        atLeast('issue', issue, '/s', floor, 0.75),
        atMost('p99', p99, 'ms', floor, 4),
        beside('detail', detail, '/s', floor),
        beside('suspend', suspend, 'ms', floor),
        beside('new', 1, '/s', floor),
      ),
    )
  expect(after(80, 200, 50, 200)).toEqual([])
  expect(after(160, 20, 100, 20)).toEqual([])
  expect(after(68, 235, 42, 235)).toEqual([])
  expect(after(60, 250, 40, 250)).toEqual([
    'issue: issue is 0.60 × echo, and was 0.80',
    'issue: p99 is 2.50 × echo, and was 2.00',
    'issue: detail is 0.40 × echo, and was 0.50',
    'issue: suspend is 2.50 × echo, and was 2.00',
  ])
})
