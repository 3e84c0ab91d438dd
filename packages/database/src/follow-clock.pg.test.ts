import { currentMs, setClockOffset } from '@licensing/process/clock'
import type { Logger } from '@licensing/process/log'
import { createTestDatabase } from '@licensing/test-support/database'
import { afterEach, expect, test, vi } from 'vitest'
import { connect } from './connect.ts'
import { followClock } from './prepare.ts'

afterEach(() => void setClockOffset(0))

test.each([
  ['an hour ahead', 3_600_000],
  ['an hour behind', -3_600_000],
])(
  'a process whose clock is %s uses the database’s time until its own clock is right, and logs both changes',
  async (_, wrongByMs) => {
    await using database = await createTestDatabase()
    const sql = connect(database.url, { name: 'clock', max: 1 })
    const warnings: unknown[] = []
    const log = { warn: (first: unknown) => void warnings.push(first) } as unknown as Logger
    const now = Date.now.bind(Date)
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + wrongByMs)
    expect(Math.abs(currentMs() - now())).toBeGreaterThan(3_000_000)
    for (let round = 0; round < 2; round += 1) await followClock(sql, log)
    expect(Math.abs(currentMs() - now())).toBeLessThan(4_000)
    clock.mockRestore()
    await followClock(sql, log)
    expect(currentMs() - now()).toBeLessThan(1_000)
    expect(warnings).toEqual([
      { offset_seconds: -wrongByMs / 1000 },
      { offset_seconds: expect.closeTo(0, 0) as number },
    ])
    await sql.end()
  },
)
