import { CHECKOUT } from '@licensing/local-servers/services'
import { eventually } from '@licensing/test-support/poll'
import { startLicensing } from '@licensing/testing'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile, spawnSync } from 'node:child_process'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { withContainers } from './engine.ts'

const run = promisify(execFile)
const image = 'licensing/dev:test'

describe.skipIf(!withContainers)('the development image', () => {
  beforeAll(async () => {
    await run('docker', ['build', '-f', 'deploy/development/Dockerfile', '-t', image, '.'], {
      cwd: CHECKOUT,
      env: { ...process.env, DOCKER_BUILDKIT: '1' },
      maxBuffer: 64 * 1024 * 1024,
    })
  }, 600_000)

  test('in one container a subscription is declined, paid, renewed and disputed', async () => {
    const licensing = await startLicensing({ image })
    const { url, apiKey, appId, simulator, events } = licensing
    const call = async <Answer>(method: string, path: string, body?: object): Promise<Answer> => {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
      expect(response.ok, `${method} ${path} ${response.status}`).toBe(true)
      return (await response.json()) as Answer
    }
    const app = `/v1/apps/${appId}`
    const plan = await call<{ id: string }>('POST', `${app}/plans`, { name: 'Pro', code: 'pro' })
    const price = {
      price_id: 'price_1',
      amount: 4900,
      currency: 'eur',
      mode: 'subscription',
      period_months: 1,
    }
    await call('PUT', `${app}/plans/${plan.id}/price`, price)
    const session = await call<{ url: string }>('POST', `${app}/checkout-sessions`, {
      plan_id: plan.id,
      external_ref: 'customer-1',
      success_url: 'https://shop.example.com/thanks',
      cancel_url: 'https://shop.example.com/cart',
    })
    await simulator.fail(session.url)
    expect(await events.all()).toEqual([])
    await simulator.pay(session.url)
    const created = await events.next('licence.created')
    const path = `/v1/licences/${String(created.data.object['licence_id'])}`
    const before = await call<{ expires_on: string }>('GET', path)
    await simulator.renew(session.url)
    await eventually(async () => {
      const { expires_on: end } = await call<{ expires_on: string }>('GET', path)
      expect(Date.parse(end)).toBeGreaterThan(Date.parse(before.expires_on))
    })
    await simulator.dispute(session.url)
    expect((await events.next('licence.revoked')).data.object['licence_id']).toBe(
      created.data.object['licence_id'],
    )
    await licensing.stop()
    await expect(fetch(url)).rejects.toThrow()
  })

  test('the samples of the guide start the container with Testcontainers', async () => {
    await using folder = await makeTemporaryFolder()
    const cwd = folder.path
    await symlink(fileURLToPath(new URL('../node_modules', import.meta.url)), join(cwd, 'node_modules'))
    const guide = await readFile(join(CHECKOUT, 'docs/guides/testing.md'), 'utf8')
    const blocks = guide.matchAll(/^```\w+ (container\.\w+)\n([^]*?)^```$/gm)
    const files = new Map([...blocks].map(([, name, code]) => [name!, code!]))
    expect([...files.keys()]).toEqual(['container.ts', 'container.py'])
    for (const [name, code] of files) {
      await writeFile(join(cwd, name), code.replace(/(['"])licensing\/dev\1/, `$1${image}$1`))
    }
    const samples = [run(process.execPath, ['container.ts'], { cwd })]
    const packages = join(cwd, 'python')
    if (installForPython(packages)) {
      // Ryuk is off, because Python's Testcontainers use another image of it than Node's. The sample removes its container itself.
      const env = { ...process.env, PYTHONPATH: packages, TESTCONTAINERS_RYUK_DISABLED: 'true' }
      samples.push(run('python3', ['container.py'], { cwd, env }))
    } else process.stdout.write('skipped: the sample in Python (no python3, or testcontainers of PyPI)\n')
    for (const { stdout } of await Promise.all(samples)) expect(stdout.trim()).toBe('200')
  })
})

function installForPython(target: string): boolean {
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--target', target]
  return spawnSync('python3', [...pip, 'testcontainers'], { timeout: 60_000 }).status === 0
}
