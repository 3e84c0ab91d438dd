import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { SignJWT } from 'jose'

type Claims = Record<string, unknown>

/** The ways in which the provider misbehaves. */
export interface Behaviour {
  /** Changed claims of the ID token; undefined leaves one out. */
  claims?: Claims
  userInfo?: Claims
  document?: Claims
  /** Signs the ID token in another way. */
  sign?: (claims: Claims) => Promise<string> | string
  /** The whole answer of an endpoint. */
  answers?: Partial<Record<Endpoint, { status?: number; body: string }>>
  delays?: Partial<Record<Endpoint, number>>
}

type Endpoint = 'document' | 'keys' | 'token' | 'userinfo'

const endpoints: Record<string, Endpoint> = {
  '/.well-known/openid-configuration': 'document',
  '/keys': 'keys',
  '/token': 'token',
  '/userinfo': 'userinfo',
}

export const newKey = () => generateKeyPairSync('rsa', { modulusLength: 2048 })

/** An identity provider that a test makes do anything. */
export async function startHostileProvider() {
  const { privateKey, publicKey } = newKey()
  const jwks = { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' }] }
  let behaviour: Behaviour = {}
  let nonce = ''
  /** The bodies that arrived at the token endpoint. */
  const exchanged: URLSearchParams[] = []
  const server = createServer((request, response) => {
    void answer(endpoints[request.url ?? ''], request).then(({ status = 200, body }) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function answer(
    endpoint: Endpoint | undefined,
    request: AsyncIterable<Buffer>,
  ): Promise<{ status?: number; body: string }> {
    if (!endpoint) return { status: 404, body: '{}' }
    let sent = ''
    for await (const chunk of request) sent += chunk.toString()
    if (endpoint === 'token') exchanged.push(new URLSearchParams(sent))
    await sleep(behaviour.delays?.[endpoint] ?? 0)
    const other = behaviour.answers?.[endpoint]
    if (other) return other
    return { body: JSON.stringify(await usual(endpoint)) }
  }

  async function usual(endpoint: Endpoint): Promise<Claims> {
    const now = Math.floor(Date.now() / 1000)
    const claims: Claims = {
      iss: issuer,
      sub: 'ann',
      aud: 'client',
      nonce,
      iat: now,
      exp: now + 300,
      email: 'ann@example.com',
      email_verified: true,
      name: 'Ann',
      ...behaviour.claims,
    }
    const sign =
      behaviour.sign ??
      ((payload: Claims) =>
        new SignJWT(payload).setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(privateKey))
    switch (endpoint) {
      case 'document':
        return {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/keys`,
          userinfo_endpoint: `${issuer}/userinfo`,
          id_token_signing_alg_values_supported: ['RS256'],
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          ...behaviour.document,
        }
      case 'keys':
        return jwks
      case 'token':
        return { access_token: 'access', token_type: 'Bearer', id_token: await sign(claims) }
      case 'userinfo':
        return {
          sub: 'ann',
          email: 'ann@example.com',
          email_verified: true,
          name: 'Ann',
          ...behaviour.userInfo,
        }
    }
  }

  return {
    issuer,
    publicKey,
    exchanged,
    behave: (how: Behaviour) => void (behaviour = how),
    /** The nonce of the sign-in that is answered next. */
    expect: (of: string) => void (nonce = of),
    async end() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
