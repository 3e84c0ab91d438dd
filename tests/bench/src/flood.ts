import { randomBytes } from 'node:crypto'
import { Pool } from 'undici'

// `node flood.ts URL PER_SECOND` sends requests with made-up API keys until it is ended, and prints each second how many
// were answered.

const [, , url = '', perSecond = '5000'] = process.argv
const pool = new Pool(url, { connections: 128, pipelining: 1 })
const tickMs = 20
const each = (Number(perSecond) * tickMs) / 1000
let answered = 0
let due = 0

setInterval(() => {
  due += each
  for (; due >= 1; due -= 1) {
    const key = `lsk_${randomBytes(24).toString('hex')}`
    pool
      .request({ method: 'GET', path: '/v1/account', headers: { authorization: `Bearer ${key}` } })
      .then(async ({ body }) => {
        await body.dump()
        answered += 1
      })
      .catch(() => {})
  }
}, tickMs)
setInterval(() => {
  process.stdout.write(`${answered}\n`)
  answered = 0
}, 1_000)
