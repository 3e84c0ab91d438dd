import { decodeJwt, generateKeyPair, SignJWT } from 'jose'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { licenceKey } from '../scale/population.ts'
import type { LoadRequest } from '../load.ts'

/** An installed product with its token. */
export interface Installation {
  activationId: string
  token: string
  host: string
}

/** Activates a product on each of `count` active licences. */
export async function givenInstallations({ api }: Stack, count: number): Promise<Installation[]> {
  const installations: Installation[] = []
  const activate = async (n: number) => {
    const host = `machine-${n}.example.com`
    const body = { licence_key: licenceKey(n), fingerprint: `machine-${n}`, host, product_version: '1.0' }
    const answer = await api.post<{ activation_id: string; token: string }>('/v1/activations', {
      body,
      key: null,
    })
    if (answer.status !== 201) throw new Error(`not activated: ${JSON.stringify(answer.body)}`)
    installations.push({ activationId: answer.body.activation_id, token: answer.body.token, host })
  }
  // Numbers that end in 1 and 2 are all active; in order of their numbers they are far apart.
  let at = 0
  const worker = async () => {
    while (at < count) {
      const n = at++
      await activate(10 + 10 * Math.floor(n / 2) + (n % 2) + 1)
    }
  }
  await Promise.all(Array.from({ length: 16 }, worker))
  return installations
}

/** A request of an installed product about itself: `refresh` or `call-home`. */
export function productCall(
  { activationId, token, host }: Installation,
  verb: 'refresh' | 'call-home',
): LoadRequest {
  return {
    method: 'POST',
    path: `/v1/activations/${activationId}/${verb}`,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ product_version: '1.0', host }),
  }
}

/** A function that signs what is in a token of the service again, with its own key and nothing around it. */
export async function bareSigner(token: string): Promise<() => Promise<string>> {
  const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' })
  const { iss, sub, aud, jti: _, iat: __, exp: ___, ...claims } = decodeJwt(token)
  return () =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT', kid: 'k'.repeat(43) })
      .setIssuer(iss!)
      .setSubject(sub!)
      .setAudience(aud!)
      .setJti(randomUUID())
      .setIssuedAt()
      .setExpirationTime('1d')
      .sign(privateKey)
}
