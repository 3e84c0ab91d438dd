import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { NotUnderstood } from '../processor.ts'
import { readEvent } from './events.ts'

const folder = new URL('../../../../../tools/stripe-simulator/fixtures/events/', import.meta.url)
const recorded = readdirSync(folder).map(
  (file) => [file, readFileSync(new URL(file, folder), 'utf8')] as const,
)

/** Every copy of an event with one value replaced. */
function variants(text: string, isReplaced: (value: unknown) => boolean, by: unknown): string[] {
  let count = 0
  JSON.parse(text, (_, value: unknown) => {
    if (isReplaced(value)) count += 1
    return value
  })
  return Array.from({ length: count }, (_unused, wanted) => {
    let at = -1
    const event: unknown = JSON.parse(text, (_, value: unknown) => {
      if (!isReplaced(value)) return value
      at += 1
      return at === wanted ? by : value
    })
    return JSON.stringify(event)
  })
}

/** The content of the event as text, or that it is not understood. */
function outcomeOf(text: string): string {
  try {
    return JSON.stringify(readEvent(Buffer.from(text)) ?? null)
  } catch (error) {
    expect(error).toBeInstanceOf(NotUnderstood)
    return 'not understood'
  }
}

const isTime = (value: unknown) => typeof value === 'number' && value > 1_700_000_000 && value < 1_900_000_000
const isText = (value: unknown) => typeof value === 'string' && value.length > 2

describe.each(recorded)('%s', (_, text) => {
  test.each([253_402_300_800, Number.MAX_SAFE_INTEGER, -1, 1.5])(
    'with %d as any of its times is not understood, or does not use it',
    (seconds) => {
      const all = variants(text, isTime, seconds)
      expect(all.length).toBeGreaterThan(0)
      const outcomes = all.map(outcomeOf)
      for (const outcome of outcomes) expect(outcome).not.toContain(String(seconds))
    },
  )

  test.each([
    ['NUL', '\0'],
    ['half of a surrogate pair', '\ud800'],
    ['more text than can be indexed', 'x'.repeat(5_000)],
  ])('with %s as any of its texts is not understood, or does not use it', (_name, bad) => {
    const all = variants(text, isText, bad)
    expect(all.length).toBeGreaterThan(0)
    for (const outcome of all.map(outcomeOf)) expect(outcome).not.toContain(JSON.stringify(bad).slice(1, 7))
  })
})
