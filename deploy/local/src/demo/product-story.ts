import { LicenceClient } from '@licensing/sdk'
import type { DemoReceiver } from './receiver.ts'
import { show } from './vendor-story.ts'
import type { Shop } from './vendor-story.ts'
import { chapter, expectThat, tell, withFile } from './show.ts'

/** The installed product, with the SDK: activates, checks, works offline, is revoked and refused; migrates a legacy key. */
export async function runProduct(
  { appId, rootKey, call, cli }: Shop,
  gateway: string,
  licenceKey: string,
  receiver: DemoReceiver,
): Promise<void> {
  chapter('7. An installed product activates with the SDK, goes offline and is revoked')
  let online = true
  const client = new LicenceClient({
    baseUrl: gateway,
    appId,
    rootKey,
    licenceKey,
    fingerprint: 'machine-1',
    host: 'editor.customer.example.com',
    productVersion: '2.1.0',
    fetch: (input: string | URL | Request, init?: RequestInit) =>
      online ? fetch(input, init) : Promise.reject(new TypeError('offline')),
  })
  const activated = await client.activate()
  tell(`activate() → ${JSON.stringify(activated)}`)
  checks(client, true)
  const second = await call('POST', '/v1/activations', {
    licence_key: licenceKey,
    fingerprint: 'machine-2',
    host: 'b.example.com',
    product_version: '2.1.0',
  })
  expectThat(second.status === 409, 'a second installation was activated, over the limit of 1')
  online = false
  tell('without a network:')
  tell(`refresh() → ${JSON.stringify(await client.refresh())}`)
  checks(client, true)
  online = true
  const { answer } = await cli('licences', 'list', '--external-ref', 'customer-1')
  const [licence] = answer as unknown as { id: string }[]
  await cli('licences', 'revoke', licence!.id)
  show(await receiver.next(appId, 'licence.revoked'))
  tell('the licence is revoked; at its next check the product reports:')
  tell(`check() → ${JSON.stringify(await client.check())}`)
  checks(client, false)
  client.stop()

  chapter('8. A legacy key of another system is imported and exchanged')
  const keys = 'legacy_key,external_ref,plan_code\nOLD-KEY-0001,customer-3,pro\n'
  await withFile('licences.csv', keys, (file) => cli('import', file))
  const migrating = new LicenceClient({
    baseUrl: gateway,
    appId,
    rootKey,
    fingerprint: 'machine-3',
    host: 'c.customer.example.com',
    productVersion: '2.1.0',
  })
  tell(`migrateAsync('OLD-KEY-0001') → ${JSON.stringify(await migrating.migrateAsync('OLD-KEY-0001'))}`)
  tell(`activate() → ${JSON.stringify(await migrating.activate())}`)
  checks(migrating, true)
  migrating.stop()
}

function checks(client: LicenceClient, expected: boolean): void {
  tell(
    `hasFeature('raw_import') → ${client.hasFeature('raw_import')}, limit('projects') → ${client.limit('projects')}`,
  )
  expectThat(client.hasFeature('raw_import') === expected, `raw_import should be ${expected}`)
}
