import { existsSync } from 'node:fs'

/**
 * The browser of the tests: the one that CHROMIUM names, or Debian's; undefined if there is none. The headless shell takes
 * two thirds of the CPU time of the whole browser.
 */
export const chromium = [
  process.env['CHROMIUM'],
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
].find((path) => path && existsSync(path))
