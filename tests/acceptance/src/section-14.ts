import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { givenMarket, givenShop } from './shop.ts'
import type { Market } from './shop.ts'
import { installed } from './vendor.ts'
import type { Grant } from './vendor.ts'

/** A shop whose application has two entitlements. */
export type Studio = Awaited<ReturnType<typeof givenStudio>>

export async function givenStudio(market?: Market) {
  market ??= await givenMarket()
  const shop = await givenShop(market)
  const { api, app } = shop
  await shop.define('export_pdf', 'feature')
  await shop.define('projects', 'limit', '3')
  const tryOut = (planCode: string, fingerprint: string = randomUUID()) =>
    api.post<Grant & { licence_key: string }>(`${app}/trials`, {
      key: null,
      body: { plan_code: planCode, fingerprint, ...installed },
    })
  const activateOffline = (licence: { key: string }, days: number) =>
    api.post<Grant>(`${app}/offline-activations`, {
      body: { licence_key: licence.key, fingerprint: randomUUID(), days, ...installed },
    })
  /** Causes another event and waits until it has arrived. All earlier events have arrived then. */
  const settled = async () => {
    const { id } = await shop.issue((await shop.plan()).id)
    await shop.verb('revoke', id)
    await eventually(() => expect(shop.heard('licence.revoked', id)).toHaveLength(1))
  }
  return { ...shop, market, tryOut, activateOffline, settled }
}
