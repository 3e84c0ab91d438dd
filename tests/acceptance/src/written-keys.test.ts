import { writtenKeys } from '@licensing/formats/testing/written-keys'
import { memoryStore } from '@licensing/sdk'
import { expect, test } from 'vitest'
import { expectNotFound, expectStatus, givenStack, givenVendor, installed } from './vendor.ts'

const stack = await givenStack()
const vendor = await givenVendor(stack)
const { api, app, activate, detail } = vendor
const { id: planId } = await vendor.plan()
const licence = await vendor.issue(planId)
const forms = Object.entries(writtenKeys(licence.key))

// docs/guides/products.md, "Keys that people type".
test('a licence key is read in every form: by activations, offline activations and the search', async () => {
  const machine = { fingerprint: 'machine' }
  const first = (await activate(licence, machine)).body
  for (const [name, key] of forms) {
    const activated = await activate({ key }, machine)
    expect([activated.status, activated.body.activation_id], name).toEqual([200, first.activation_id])
    const body = { licence_key: key, days: 1, ...machine, ...installed }
    const offline = await api.post(`${app}/offline-activations`, { body })
    expect(offline, name).toMatchObject({ status: 200, body: { activation_id: first.activation_id } })
    const found = await api.get(`${app}/search?q=${encodeURIComponent(key)}`)
    expect(found.body, name).toMatchObject({ data: [{ matched: 'key', licence: { id: licence.id } }] })
  }
  for (const key of [
    licence.key.slice(1),
    `${licence.key}0`,
    licence.key.replaceAll('-', '_'),
    `${licence.key}\0`,
  ]) {
    expectNotFound(await activate({ key }, machine))
  }
})

test('the SDK knows its licence key in every form without the network', async () => {
  const store = memoryStore()
  const options = { store, fingerprint: 'shared' }
  using product = vendor.install({ ...options, licenceKey: licence.key })
  expect(await product.activate()).toMatchObject({ status: 'licensed' })
  const fetch = () => Promise.reject(new Error('there is no network'))
  for (const [name, licenceKey] of forms) {
    using offline = vendor.install({ ...options, licenceKey, fetch })
    expect(await offline.activate(), name).toMatchObject({ status: 'licensed', problem: null })
  }
  using other = vendor.install({ ...options, licenceKey: (await vendor.issue(planId)).key, fetch })
  expect(await other.ready()).toMatchObject({ status: 'unlicensed', reason: 'licence_key_changed' })
})

test('a legacy key is stored and read without blanks and invisible characters at both ends', async () => {
  const item = (legacyKey: string) => ({ legacy_key: legacyKey, external_ref: 'c', plan_id: planId })
  const ends = [' ', '\t', '\r\n', '\u00A0', '\u00AD', '\u200B', '\u200E', '\u2060', '\uFEFF']
  const items = ends.map((end) => item(`${end}OLD \u200B1${end}`))
  const imported = await api.post<{ items: { licence_id: string }[]; summary: object }>(
    `${app}/licences/import`,
    {
      body: { items },
    },
  )
  expect(imported.body.summary).toEqual({ created: 1, existing: ends.length - 1, failed: 0 })
  const { licence_id: id } = imported.body.items[0]!
  expect(await detail(id)).toMatchObject({ legacy_key: 'OLD \u200B1' })
  for (const end of ends) {
    const text = `${end}OLD \u200B1${end}`
    const migrated = await api.post(`${app}/migrate`, { key: null, body: { legacy_key: text } })
    expect(migrated.body).toMatchObject({ licence_id: id })
    const found = await api.get(`${app}/search?q=${encodeURIComponent(text)}`)
    expect(found.body).toMatchObject({ data: [{ matched: 'legacy_key', licence: { id } }] })
  }
  // The trimmed key must have 1 to 255 characters.
  const long = `${' '.repeat(300)}${'k'.repeat(255)}\u200B`
  const lengths = await api.post(`${app}/licences/import`, {
    body: { items: [item(long), item('\u200B'), item(`${long}k`)] },
  })
  expectStatus(lengths, 200)
  expect(lengths.body).toMatchObject({
    items: [{ result: 'created' }, { result: 'failed' }, { result: 'failed' }],
  })
  expectStatus(await api.post(`${app}/migrate`, { key: null, body: { legacy_key: long } }), 200)
  for (const blank of ['', ' \u200B ', 'OLD\u200B1', '-OLD \u200B1']) {
    expectNotFound(await api.post(`${app}/migrate`, { key: null, body: { legacy_key: blank } }))
  }
})
