import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** Absolute path of the file that starts the identity provider for trying. */
export const IDENTITY_PROVIDER_MAIN = require.resolve('@licensing/identity-provider/main')

/** Settings with which the gateway uses it. */
export function identityProviderSettings(address: string) {
  return {
    OIDC_ISSUER: `http://${address}`,
    OIDC_CLIENT_ID: 'portal',
    // Not a real secret, and recognizable as such wherever it appears.
    OIDC_CLIENT_SECRET: 'simulated: a+b/c=',
    OIDC_NAME: 'the simulated provider',
  }
}

/**
 * The environment of the identity provider.
 *
 * @param address host:port to listen on
 * @param gatewayUrl the gateway to which people return
 */
export function identityProviderEnvironment(address: string, gatewayUrl: string): Record<string, string> {
  const { OIDC_CLIENT_ID, OIDC_CLIENT_SECRET } = identityProviderSettings(address)
  return {
    HTTP_ADDRESS: address,
    OIDC_CLIENT_ID,
    OIDC_CLIENT_SECRET,
    OIDC_REDIRECT_URI: `${gatewayUrl}/portal/signed-in`,
  }
}
