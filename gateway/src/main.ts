import { signCalls } from '@licensing/grpc/callers'
import { readConfig } from '@licensing/process/config'
import { Health } from '@licensing/process/health'
import { defineProgram } from '@licensing/process/run'
import { buildApp } from './app.ts'
import { gatewayConfig, identityProviderOf } from './config.ts'
import { connectServices } from './services.ts'

export const program = defineProgram(
  'gateway',
  (env) => readConfig(gatewayConfig, env),
  async ({ log, health, onStop, step }, config) => {
    const services = connectServices(
      {
        catalog: config.CATALOG_ADDRESS,
        licensing: config.LICENSING_ADDRESS,
        billing: config.BILLING_ADDRESS,
        notifier: config.NOTIFIER_ADDRESS,
      },
      (service) => signCalls('gateway', service, config),
    )
    onStop('channels', () => services.close())
    // The gateway is ready while any service is: if one is unavailable, requests to the others still work.
    health.add('services', () => Promise.any(Object.values(services.probes).map((ask) => ask())))
    const parts = new Health()
    for (const [name, probe] of Object.entries(services.probes)) parts.add(name, probe)

    if (!config.PORTAL_SESSION_KEY)
      log.warn('PORTAL_SESSION_KEY is not set: nobody can sign in to the portal')
    step('http server')
    const app = await buildApp({
      services: services.calls,
      limits: {
        perKey: config.RATE_LIMIT_PER_MINUTE,
        perAddress: config.PRODUCT_RATE_PER_MINUTE,
        wrongKeysPerAddress: config.PRODUCT_WRONG_KEYS_PER_MINUTE,
        trialsPerAddress: config.PRODUCT_TRIALS_PER_DAY,
      },
      trustProxy: config.TRUST_PROXY ?? false,
      publicUrl: config.PUBLIC_URL,
      guidesFolder: config.GUIDES_DIR,
      downloadsFolder: config.DOWNLOADS_DIR,
      portalFolder: config.PORTAL_DIR,
      sessionKeys: config.PORTAL_SESSION_KEY,
      identityProvider: identityProviderOf(config),
      health,
      parts,
      log,
    })
    onStop('http server', () => app.close())
    await app.listen(config.HTTP_ADDRESS)
  },
)

if (import.meta.main) program.run()
