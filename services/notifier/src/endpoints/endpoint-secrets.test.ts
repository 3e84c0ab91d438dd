import { expect, test } from 'vitest'
import { newSecret } from './endpoint-secrets.ts'

test('a secret is whsec_ and 43 characters of base64url, and differs each time', () => {
  const secrets = Array.from({ length: 100 }, newSecret)
  expect(new Set(secrets).size).toBe(100)
  for (const secret of secrets) expect(secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/)
})
