import { eventually } from '@licensing/test-support/poll'
import { freeAddress } from '@licensing/test-support/free-address'
import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { blocksOf } from './documents.ts'
import { givenMarket, givenShop } from './shop.ts'
import { givenFolder } from './vendor.ts'

const secret = 'secret-of-the-shop'
const sellerId = 'FDEdrXnKyFgYRQcyoCvTDg=='
const fixtures = fileURLToPath(new URL('../fixtures/shops', import.meta.url))
const hmac = (text: string) => createHmac('sha256', secret).update(text)
const form = (json: string) => new URLSearchParams(JSON.parse(json) as Record<string, string>).toString()

interface Shop {
  name: string
  priceId: string
  /** The settings of its receiver. */
  settings: Record<string, string>
  /** The request with an event, and its signature. */
  request(event: string): { path?: string; body: string; headers?: Record<string, string> }
  /** When the latest event happened. The fixtures are moved so that this is an hour ago. */
  latest: string
  /** The status of the licence after each file of its fixtures; null if its end has passed, so that it may have expired. */
  statuses: (string | null)[]
}

const shops: Shop[] = [
  {
    name: 'paddle',
    priceId: 'pri_01hv8x29kz0t586xy6zn1a62ny',
    settings: { PADDLE_API_KEY: 'pdl_test', PADDLE_WEBHOOK_SECRET: secret },
    request: (body) => {
      const ts = Math.floor(Date.now() / 1000)
      return { body, headers: { 'paddle-signature': `ts=${ts};h1=${hmac(`${ts}:${body}`).digest('hex')}` } }
    },
    latest: '2026-08-20T10:00:00Z',
    statuses: [
      null,
      'active',
      'active',
      'active',
      'suspended',
      'active',
      'active',
      'downgraded',
      'expired',
      'revoked',
    ],
  },
  {
    name: 'lemon-squeezy',
    priceId: 'lemon-pro',
    settings: { LEMON_SQUEEZY_SECRET: secret },
    request: (body) => ({ body, headers: { 'x-signature': hmac(body).digest('hex') } }),
    latest: '2026-08-10T10:12:03Z',
    statuses: [
      null,
      null,
      'active',
      'active',
      'active',
      'suspended',
      'active',
      'downgraded',
      'expired',
      'revoked',
    ],
  },
  {
    name: 'fastspring',
    priceId: 'photo-editor-pro',
    settings: { FASTSPRING_SECRET: secret },
    request: (body) => ({ body, headers: { 'x-fs-signature': hmac(body).digest('base64') } }),
    latest: '2026-08-10T10:12:00Z',
    statuses: [null, 'active', 'suspended', 'active', 'downgraded', 'expired', 'revoked'],
  },
  {
    name: 'gumroad',
    priceId: 'pep',
    settings: { GUMROAD_URL_SECRET: secret, GUMROAD_SELLER_ID: sellerId },
    request: (json) => ({ path: `/${secret}`, body: form(json) }),
    latest: '2026-07-05T10:12:00Z',
    statuses: ['active', 'active', 'expired', 'revoked'],
  },
]

const market = await givenMarket()
const { stack } = market
const folder = await givenFolder()
await symlink(fileURLToPath(new URL('../node_modules', import.meta.url)), join(folder.path, 'node_modules'))

/** The events of a shop in their order, as if the latest one had happened an hour ago. */
async function eventsOf({ name, latest }: Shop): Promise<string[]> {
  const moved = Date.now() - 3_600_000 - Date.parse(latest)
  const files = (await readdir(join(fixtures, name))).sort((a, b) => parseInt(a) - parseInt(b))
  return Promise.all(
    files.map(async (file) =>
      (await readFile(join(fixtures, name, file), 'utf8'))
        .replaceAll(/\b2026-\d\d-\d\dT[\d:.]+Z/g, (time) => new Date(Date.parse(time) + moved).toISOString())
        .replaceAll(/\b17\d{11}\b/g, (ms) => String(Number(ms) + moved)),
    ),
  )
}

test.each(shops)(
  'the receiver of the guide for $name reports its events, from the first sale to the refund',
  async (shop) => {
    const { name, priceId, settings, request, statuses } = shop
    const { appId, sells, licencesOf, types } = await givenShop(market)
    await sells({ price_id: priceId })
    const [block] = blocksOf(`docs/guides/shops/${name}.md`)
    expect(block!.code.trimEnd().split('\n').length).toBeLessThanOrEqual(80)
    await writeFile(join(folder.path, block!.file!), block!.code)
    const port = (await freeAddress()).split(':')[1]!
    const service = { LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: stack.apiKey, LICENSING_APP: appId }
    const receiver = spawn(process.execPath, [block!.file!], {
      cwd: folder.path,
      env: { ...process.env, ...service, ...settings, PORT: port },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    try {
      const send = async ({ path = '/', ...sent }: ReturnType<Shop['request']>) =>
        (await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', ...sent })).status
      const events = await eventsOf(shop)
      const [sale] = events
      // It refuses what the shop did not sign.
      await eventually(async () => expect(await send({ body: request(sale!).body })).toBe(400))
      const signed = request(sale!)
      if (signed.headers) expect(await send({ ...signed, body: `${signed.body} ` })).toBe(400)
      expect(events).toHaveLength(statuses.length)
      for (const [at, event] of events.entries()) {
        expect(await send(request(event)), `${name} ${at + 1}`).toBe(200)
        // The shop repeats its requests.
        expect(await send(request(event))).toBe(200)
        await eventually(
          async () =>
            expect(await licencesOf('customer-4711'), `${name} ${at + 1}`).toMatchObject([
              statuses[at] ? { status: statuses[at] } : {},
            ]),
          { timeoutMs: 10_000 },
        )
      }
      const refunds = () => types().filter((type) => type === 'refund.processed')
      await eventually(() => expect(refunds()).toHaveLength(name === 'gumroad' ? 1 : 2), {
        timeoutMs: 10_000,
      })
    } finally {
      receiver.kill()
      await once(receiver, 'exit')
    }
  },
  60_000,
)
