import { existsSync } from 'node:fs'

/**
 * The program of the tests' browser: CHROMIUM, else Debian's; undefined if there is none. The headless shell uses two thirds
 * of the CPU time of the full browser.
 */
export const chromium = [
  process.env['CHROMIUM'],
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
].find((path) => path && existsSync(path))
