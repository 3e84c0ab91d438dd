import { describe, expect, it, onTestFinished } from 'vitest'
import { LicenceClient, type LicenceClientOptions } from '../src/product/client.ts'
import { memoryStore } from '../src/product/store.ts'
import { LicensingServer } from './licensing-server.ts'

describe('a product and a service that speak HTTP', () => {
  it('activates, works offline, and frees the place', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    await expect(licence.activate()).resolves.toMatchObject({ status: 'licensed', revocations: 'unknown' })
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

  it('notices a revocation within the check interval, although the token is valid', async () => {
    await using service = await LicensingServer.start()
    service.checkIntervalSeconds = 2
    const key = service.issue()
    const licence = givenClient(service, { licenceKey: key, background: true })
    await licence.activate()
    await expect.poll(() => licence.state.revocations, { timeout: 30_000 }).toBe('current')
    expect(licence.hasFeature('export_pdf')).toBe(true)
    service.revoke(key)
    await expect.poll(() => licence.hasFeature('export_pdf'), { timeout: 30_000 }).toBe(false)
    expect(licence.state).toMatchObject({ status: 'refused', reason: 'revoked' })
    expect(Date.parse(licence.state.expiresAt ?? '')).toBeGreaterThan(Date.now())
  })

  it('renews the token at half of its life; if that is refused, the token counts until its end', async () => {
    await using service = await LicensingServer.start()
    service.tokenLifeSeconds = 8
    const licence = givenClient(service, { background: true })
    const heard: string[] = []
    licence.onChange(({ status, reason }) => heard.push(`${status} ${reason}`))
    const { expiresAt } = await licence.activate()
    await expect.poll(() => licence.state.expiresAt, { timeout: 30_000 }).not.toBe(expiresAt)
    service.status = 'suspended'
    await expect.poll(() => licence.hasFeature('export_pdf'), { timeout: 30_000 }).toBe(false)
    await expect
      .poll(() => heard.slice(-2), { timeout: 30_000 })
      .toEqual(['grace suspended', 'refused suspended'])
  })

  it('follows a rotation of the signing key', async () => {
    await using service = await LicensingServer.start()
    const kept = { store: memoryStore(), licenceKey: service.issue() }
    const licence = givenClient(service, kept)
    await licence.activate()
    service.rotateKey()
    service.entitlements = { export_pdf: 'false', max_projects: '3' }
    await expect(licence.refresh()).resolves.toMatchObject({ status: 'licensed', problem: null })
    expect([licence.hasFeature('export_pdf'), licence.limit('max_projects')]).toEqual([false, 3])
    const restarted = givenClient(service, kept)
    await expect(restarted.ready()).resolves.toMatchObject({ status: 'licensed' })
    expect(restarted.limit('max_projects')).toBe(3)
  })

  it('exchanges a legacy key', async () => {
    await using service = await LicensingServer.start()
    const key = service.issue('OLD-1')
    const licence = givenClient(service, { licenceKey: undefined })
    await expect(licence.migrateAsync('OLD-1')).resolves.toMatchObject({ status: 'licensed' })
    expect(licence.licenceKey).toBe(key)
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

  it('obeys a Retry-After with a date, by the clock of the server', async () => {
    await using service = await LicensingServer.start()
    const licence = givenClient(service)
    const headers = {
      date: 'Sat, 01 Feb 2020 10:00:00 GMT',
      'retry-after': 'Sat, 01 Feb 2020 10:10:00 GMT',
    }
    service.instead = { status: 503, headers }
    await expect(licence.activate()).resolves.toMatchObject({ reason: 'unavailable' })
    service.instead = null
    await expect(licence.activate()).resolves.toMatchObject({ reason: 'unavailable' })
    expect(service.requests).toHaveLength(1)
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
    ...options,
    licenceKey: 'licenceKey' in options ? options.licenceKey : service.issue(),
  })
  onTestFinished(() => licence.stop())
  return licence
}
