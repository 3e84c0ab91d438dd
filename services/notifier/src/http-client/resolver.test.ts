import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { createResolver, createSystemLookup, isAbsence } from './resolver.ts'

const typeA = 1
const nameError = 3

/** A name server that knows `known.example` (IPv4 only), says that other names do not exist, and drops `silent.example`. */
async function startNameServer() {
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    const name: string[] = []
    let at = 12
    for (let length = query[at]!; length > 0; length = query[at]!) {
      name.push(query.toString('latin1', at + 1, at + 1 + length))
      at += 1 + length
    }
    const host = name.join('.')
    if (host === 'silent.example') return
    const hasAnswer = host === 'known.example' && query.readUInt16BE(at + 1) === typeA
    const code = host === 'known.example' ? 0 : nameError
    const header = Buffer.alloc(12)
    header.writeUInt16BE(query.readUInt16BE(0), 0)
    header.writeUInt16BE(0x8180 + code, 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(Number(hasAnswer), 6)
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 216, 34])
    const question = query.subarray(12, at + 5)
    socket.send(Buffer.concat([header, question, ...(hasAnswer ? [answer] : [])]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return { server: `127.0.0.1:${socket.address().port}`, [Symbol.dispose]: () => void socket.close() }
}

function givenHostsFile(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'hosts-'))
  const path = join(folder, 'hosts')
  writeFileSync(path, text)
  return { path, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

test('names are resolved by DNS, also without a hosts file, and a name that does not exist is recognised', async () => {
  using nameServer = await startNameServer()
  const lookup = createSystemLookup({ hostsFile: '/nonexistent/hosts', servers: [nameServer.server] })
  expect(await lookup('known.example')).toEqual(['93.184.216.34'])
  const failure = await lookup('other.example').catch((error: unknown) => error)
  expect(isAbsence(failure)).toBe(true)
})

test('an unresponsive name server delays only its own names', async () => {
  using nameServer = await startNameServer()
  const lookup = createSystemLookup({ servers: [nameServer.server] })
  let over = 0
  const silent = Array.from({ length: 20 }, () =>
    lookup('silent.example')
      .catch((error: unknown) => error)
      .finally(() => (over += 1)),
  )
  expect(await lookup('known.example')).toEqual(['93.184.216.34'])
  expect(await lookup('localhost')).toContain('127.0.0.1')
  expect(over).toBe(0)
  const failures = await Promise.all(silent)
  expect(failures.every((failure) => failure instanceof Error && !isAbsence(failure))).toBe(true)
})

test('the hosts file has priority over DNS, and its changes apply at once', async () => {
  using hosts = givenHostsFile(
    '# comment\n10.1.1.1 known.example Receiver.Test # mine\n::1\tlocalhost\nfd00::1 receiver.test\n',
  )
  const lookup = createSystemLookup({ hostsFile: hosts.path, servers: ['127.0.0.1:1'] })
  expect(await lookup('known.example')).toEqual(['10.1.1.1'])
  expect(await lookup('receiver.test')).toEqual(['10.1.1.1', 'fd00::1'])
  expect(await lookup('localhost')).toEqual(['::1'])
  writeFileSync(hosts.path, '10.2.2.22 receiver.test')
  expect(await lookup('receiver.test')).toEqual(['10.2.2.22'])
  expect(await lookup('localhost')).toEqual(['127.0.0.1', '::1'])
  expect(await lookup('app.localhost')).toEqual(['127.0.0.1', '::1'])
})

test('an address is cached for its lifetime, then resolved again', async () => {
  let asked = 0
  const resolve = createResolver(async () => [`10.0.0.${++asked}`], { lifeMs: 200 })
  const { signal } = new AbortController()
  expect(await Promise.all([resolve('a', signal), resolve('a', signal)])).toEqual([
    ['10.0.0.1'],
    ['10.0.0.1'],
  ])
  expect(await resolve('a', signal)).toEqual(['10.0.0.1'])
  await vi.waitFor(async () => expect(await resolve('a', signal)).toEqual(['10.0.0.2']), { timeout: 30_000 })
})

test('a failure is not cached', async () => {
  let asked = 0
  const resolve = createResolver(async () => {
    if (++asked === 1) throw new Error('unavailable')
    return ['10.0.0.1']
  })
  const { signal } = new AbortController()
  await expect(resolve('a', signal)).rejects.toThrow('unavailable')
  expect(await resolve('a', signal)).toEqual(['10.0.0.1'])
})

test('a caller that aborts does not abort the look-up for other callers', async () => {
  const answer = Promise.withResolvers<string[]>()
  const resolve = createResolver(() => answer.promise)
  const impatient = new AbortController()
  const first = resolve('a', impatient.signal)
  const second = resolve('a', new AbortController().signal)
  impatient.abort(new Error('enough'))
  await expect(first).rejects.toThrow('enough')
  answer.resolve(['10.0.0.1'])
  expect(await second).toEqual(['10.0.0.1'])
})

test('the cache does not exceed its capacity', async () => {
  const asked: string[] = []
  const resolve = createResolver(
    async (host) => {
      asked.push(host)
      return ['10.0.0.1']
    },
    { capacity: 2 },
  )
  const { signal } = new AbortController()
  for (const host of ['a', 'b', 'c', 'b', 'c', 'a']) await resolve(host, signal)
  expect(asked).toEqual(['a', 'b', 'c', 'a'])
})
