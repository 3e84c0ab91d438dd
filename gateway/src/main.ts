import { readConfig } from '@licensing/process/config'
import { runProcess } from '@licensing/process/run'
import { buildApp } from './app.ts'
import { gatewayConfig } from './config.ts'
import { connectServices } from './services.ts'

await runProcess(
  'gateway',
  () => readConfig(gatewayConfig),
  async ({ log, health, onStop, step }, config) => {
    const services = connectServices({
      catalog: config.CATALOG_ADDRESS.text,
      licensing: config.LICENSING_ADDRESS.text,
      billing: config.BILLING_ADDRESS.text,
      notifier: config.NOTIFIER_ADDRESS.text,
    })
    onStop('channels', () => services.close())
    for (const [name, probe] of Object.entries(services.probes)) health.add(name, probe)

    step('http server')
    const app = await buildApp({
      services: services.calls,
      limits: {
        perKey: config.RATE_LIMIT_PER_MINUTE,
        perAddress: config.PRODUCT_RATE_PER_MINUTE,
        wrongKeysPerAddress: config.PRODUCT_WRONG_KEYS_PER_MINUTE,
      },
      trustProxy: config.TRUST_PROXY,
      publicUrl: config.PUBLIC_URL,
      portalFolder: config.PORTAL_DIR,
      health,
      log,
    })
    onStop('http server', () => app.close())
    await app.listen({ host: config.HTTP_ADDRESS.host, port: config.HTTP_ADDRESS.port })
  },
)
