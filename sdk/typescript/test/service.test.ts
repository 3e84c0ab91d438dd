import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LicenceClient, type LicenceClientOptions } from '../src/product/client.ts'
import { memoryStore } from '../src/product/store.ts'
import { LicensingServer } from '@licensing/sdk-suite/licensing-server'

describe('a product and a service that speak HTTP', () => {
  it('activates, works offline, and frees the place', async () => {
    await using service = await LicensingServer.start()
    const licenceKey = service.issue()
    const licence = givenClient(service, { licenceKey })
    await expect(licence.activate()).resolves.toMatchObject({ status: 'licensed', revocations: 'unknown' })
    expect(licence.licenceKey).toBe(licenceKey)
    await service.close()
    await expect(licence.refresh()).resolves.toMatchObject({
      status: 'licensed',
      problem: { code: 'unreachable' },
    })
    expect([licence.hasFeature('export_pdf'), licence.limit('max_projects')]).toEqual([true, 25])
    await service.listen()
    await expect(licence.deactivate()).resolves.toMatchObject({ reason: 'deactivated', problem: null })
    expect([licence.hasFeature('export_pdf'), service.activations]).toEqual([false, 0])
  })

  it('shares one request between calls that are made at once', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    const { activationId } = await licence.activate()
    const states = await Promise.all(Array.from({ length: 20 }, () => licence.refresh()))
    expect(states.every(({ usable }) => usable)).toBe(true)
    expect(service.requests.filter((request) => request.endsWith('/refresh'))).toEqual([
      `POST /v1/activations/${activationId}/refresh`,
    ])
  })

  it('runs one operation at a time, in the order of the calls', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    const [activated, deactivated, again] = await Promise.all([
      licence.activate(),
      licence.deactivate(),
      licence.refresh(),
    ])
    expect([activated.status, deactivated.reason, again.reason]).toEqual([
      'licensed',
      'deactivated',
      'deactivated',
    ])
  })

  it.each(['Sat, 01 Feb 2020 10:10:00 GMT', 'Saturday, 01-Feb-20 10:10:00 GMT', 'Sat Feb  1 10:10:00 2020'])(
    'obeys a Retry-After with a date, by the clock of the server: %s',
    async (until) => {
      await using service = await LicensingServer.start()
      const licence = givenClient(service)
      const headers = { date: 'Sat, 01 Feb 2020 10:00:00 GMT', 'retry-after': until }
      service.instead = { status: 503, headers }
      await expect(licence.activate()).resolves.toMatchObject({ reason: 'unavailable' })
      service.instead = null
      await expect(licence.activate()).resolves.toMatchObject({ reason: 'unavailable' })
      expect(service.requests).toHaveLength(1)
    },
  )

  it('goes on with its token while the vendor is served at another address', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    await licence.activate()
    const body = {
      code: 'account_moved',
      detail: 'this account is served elsewhere',
      address: 'https://other',
    }
    service.instead = { status: 421, body }
    for (const _ of [1, 2]) {
      await expect(licence.refresh()).resolves.toMatchObject({
        status: 'licensed',
        problem: { code: 'unexpected_answer' },
      })
    }
    service.instead = null
    await expect(licence.refresh()).resolves.toMatchObject({ status: 'licensed' })
  })

  it('takes an answer that never ends, or is too long, for no answer, and reads no more of it', async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    let sent = 0
    const text = '"'.padEnd(65_536, 'x')
    const endless = createServer((request, response) => {
      response.on('close', resolve)
      response.writeHead(200, { 'content-type': 'application/json' })
      const send = () => {
        while (!response.destroyed && response.write(text)) sent += text.length
      }
      response.on('drain', send)
      if (request.url?.endsWith('/refresh')) response.write('{"token":')
      else send()
    })
    endless.listen(0, '127.0.0.1')
    await once(endless, 'listening')
    onTestFinished(() => endless.close().closeAllConnections())
    await using service = await LicensingServer.start()
    const baseUrl = `http://127.0.0.1:${(endless.address() as AddressInfo).port}`
    const flooded = givenClient(service, { baseUrl, timeoutMs: 60_000 })
    await expect(flooded.activate()).resolves.toMatchObject({ reason: 'unexpected_answer' })
    await closed
    expect(sent).toBeLessThan(64 * 1024 * 1024)

    const store = memoryStore()
    const licenceKey = service.issue()
    await givenClient(service, { store, licenceKey }).activate()
    const slow = givenClient(service, { baseUrl, store, licenceKey, timeoutMs: 300 })
    await expect(slow.refresh()).resolves.toMatchObject({ status: 'licensed', problem: { code: 'timeout' } })
  })

  it('reads an answer as UTF-8, whatever character set it names', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    service.instead = {
      status: 403,
      body: { code: 'licence_refused', reason: 'geschlossen – Ü', detail: 'no' },
      headers: { 'content-type': 'application/json; charset=utf-16' },
    }
    await expect(licence.activate()).resolves.toMatchObject({ status: 'refused', reason: 'geschlossen – Ü' })
  })

  it('follows no redirect, so its token goes nowhere else', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    await licence.activate()
    service.instead = { status: 307, headers: { location: `${service.baseUrl}/elsewhere` } }
    await expect(licence.refresh()).resolves.toMatchObject({ problem: { code: 'unexpected_answer' } })
    expect(service.requests).not.toContain('POST /elsewhere')
  })

  it('notifies listeners of each change once, whatever they do', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    const heard: string[] = []
    licence.onChange(() => {
      throw new Error('a listener that throws')
    })
    const end = licence.onChange(({ status }) => heard.push(status))
    await licence.activate()
    await licence.activate()
    service.status = 'retired'
    await licence.refresh()
    end()
    await licence.deactivate()
    expect(heard).toEqual(['licensed', 'grace'])
  })

  it('does nothing more after it was stopped, and still answers', async () => {
    await using service = await LicensingServer.start()
    using licence = givenClient(service)
    await licence.activate()
    licence.stop()
    await expect(licence.refresh()).resolves.toMatchObject({ status: 'licensed', problem: null })
    expect([licence.hasFeature('export_pdf'), service.requests.length]).toEqual([true, 2])
  })

  it('is not delayed by invalid options', async () => {
    const nothing = {} as LicenceClientOptions
    const licence = new LicenceClient({
      ...nothing,
      rootKey: 'unpinned',
      licenceKey: 'X',
      background: false,
    })
    await expect(licence.activate()).resolves.toMatchObject({ status: 'unlicensed', reason: 'unreachable' })
    expect(licence.hasFeature('export_pdf')).toBe(false)
  })
})

function givenClient(service: LicensingServer, options: Partial<LicenceClientOptions> = {}): LicenceClient {
  const licence = new LicenceClient({
    baseUrl: `${service.baseUrl}/`,
    appId: service.appId,
    rootKey: service.rootKey,
    fingerprint: 'machine-1',
    host: 'app.example.com',
    productVersion: '4.2.0',
    background: false,
    licenceKey: service.issue(),
    ...options,
  })
  onTestFinished(() => licence.stop())
  return licence
}
