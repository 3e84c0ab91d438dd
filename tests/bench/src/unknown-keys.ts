import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { scaled } from './bench-scale.ts'
import { load } from './load.ts'
import { atMost, median } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'

const seconds = 10
const connections = 4

/** How much requests with unknown API keys delay requests with valid keys. */
export async function unknownKeys(): Promise<Section> {
  await using setting = await startSetting()
  const { gatewayUrl, apiKey } = setting.stack
  const headers = { authorization: `Bearer ${apiKey}` }
  const known = () =>
    load(gatewayUrl, 200, () => ({ method: 'GET', path: '/v1/account', headers }), { connections, seconds })
  await known()
  const idle = await known()
  const wanted = scaled(5_000, 500)
  const flood = spawn(
    process.execPath,
    [fileURLToPath(new URL('flood.ts', import.meta.url)), gatewayUrl, String(wanted)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const answered: number[] = []
  createInterface({ input: flood.stdout }).on('line', (line) => answered.push(Number(line)))
  await once(flood.stdout, 'data')
  const flooded = await known()
  flood.kill('SIGKILL')
  const p99: Figure = { name: 'known key, p99, idle', value: idle.p99Ms, unit: 'ms' }
  return {
    title: `Known API keys beside ${wanted.toLocaleString('en')} made-up ones a second`,
    figures: [
      p99,
      atMost('known key, p99, flooded', flooded.p99Ms, 'ms', p99, 2),
      { name: 'known key, p50, idle', value: idle.p50Ms, unit: 'ms' },
      { name: 'known key, p50, flooded', value: flooded.p50Ms, unit: 'ms' },
      { name: 'made-up keys answered', value: median(answered), unit: '/s' },
      { name: 'known keys not answered 200', value: idle.wrong + flooded.wrong, unit: '' },
    ],
    notes: [
      `${connections} connections with the known key, ${seconds} s each; the flood is a process of its own`,
    ],
  }
}
