import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { buildThisRelease } from './releases.ts'
import { withContainers } from './engine.ts'
import { componentNames } from './manifests.ts'

const run = promisify(execFile)
const mebibyte = 1024 * 1024

describe.skipIf(!withContainers)('images', () => {
  let tag: string
  beforeAll(async () => {
    tag = await buildThisRelease(true)
  }, 900_000)

  const inImage = async (component: string, ...command: string[]) => {
    const [program, ...rest] = command
    const options = ['run', '--rm', '--read-only', '--network', 'none', '--entrypoint', program!]
    return (await run('docker', [...options, `licensing/${component}:${tag}`, ...rest])).stdout.trim()
  }

  test.each(componentNames)(
    '%s: small, without root, with a health check and a bill of materials',
    async (component) => {
      const { stdout } = await run('docker', ['image', 'inspect', `licensing/${component}:${tag}`])
      const [image] = JSON.parse(stdout) as [
        { Config: { User: string; Healthcheck: { Test: string[] }; Entrypoint: string[] } },
      ]
      expect(image.Config.User).toBe('1000:1000')
      expect(image.Config.Healthcheck.Test).toContain('/app/dist/src/health-check.mjs')
      expect(await inImage(component, 'id', '-u')).toBe('1000')
      const kibibytes = Number((await inImage(component, 'du', '-sk', '/app')).split(/\s/)[0])
      expect(kibibytes * 1024).toBeLessThan(30 * mebibyte)
      const bill = JSON.parse(await inImage(component, 'cat', '/app/bom.json')) as {
        bomFormat: string
        components: { purl: string }[]
      }
      expect(bill.bomFormat).toBe('CycloneDX')
      expect(bill.components.map(({ purl }) => purl)).toContainEqual(
        expect.stringMatching(/^pkg:npm\/%40grpc\/grpc-js@\d/),
      )
      // Without its environment it prints the missing variables and ends.
      await expect(inImage(component, ...image.Config.Entrypoint)).rejects.toMatchObject({ code: 2 })
    },
    60_000,
  )

  test('the images contain the operators’ commands', async () => {
    expect(await inImage('catalog', 'licensing-admin', '--help')).toContain('create-account')
    expect(await inImage('licensing', 'rotate-signing-keys', '--help')).toContain('--re-encrypt')
  })
})
