import { createHmac, createPrivateKey, sign } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'

/**
 * Signs the documents of `sdk/vectors/shared.json` again: run it after editing a payload, then `prettier --write`.
 * Ed25519 is deterministic, so the signatures of unedited payloads do not change.
 */
interface Document {
  readonly alg?: 'EdDSA' | 'HS256' | 'none'
  readonly kid: string
  readonly signed_by: string
  readonly payload: unknown
  jws?: string
}

type Key = Readonly<Record<'kty' | 'crv' | 'x' | 'd' | 'kid', string>>

const file = new URL('../../vectors/shared.json', import.meta.url)
const shared = JSON.parse(await readFile(file, 'utf8')) as {
  keys: Record<string, Key>
  documents: Record<string, Document>
}
for (const document of Object.values(shared.documents)) {
  const key = shared.keys[document.signed_by]
  if (!key) throw new Error(`no key ${document.signed_by}`)
  document.jws = signed(document, key)
}
await writeFile(file, `${JSON.stringify(shared, null, 2)}\n`)

function signed({ alg = 'EdDSA', kid, payload }: Document, key: Key): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const input = `${part({ alg, kid })}.${part(payload)}`
  return `${input}.${signature(alg, input, key)}`
}

function signature(alg: NonNullable<Document['alg']>, input: string, key: Key): string {
  switch (alg) {
    case 'EdDSA':
      return sign(null, Buffer.from(input), createPrivateKey({ key, format: 'jwk' })).toString('base64url')
    case 'HS256':
      // A known attack: an HMAC with the public key as its secret.
      return createHmac('sha256', Buffer.from(key.x, 'base64url')).update(input).digest('base64url')
    case 'none':
      return ''
  }
}
