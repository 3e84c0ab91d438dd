import { ensureDatabases } from '@licensing/local-servers/databases'
import type { DataFolder, StackFile } from './data-folder.ts'
import { bundlePrograms } from './bundle.ts'
import { findDemoAccount } from './demo-account.ts'
import { freePort, isPortFree } from '@licensing/local-servers/ports'
import {
  IDENTITY_PROVIDER_MAIN,
  identityProviderEnvironment,
  identityProviderSettings,
} from '@licensing/local-servers/identity-provider'
import { launchPrograms, loadPrograms } from './one-process.ts'
import { retryTakenPorts } from '@licensing/local-servers/node-process'
import { startPrograms, type Program, type StartContext } from './programs.ts'
import { loadSecrets } from '@licensing/local-servers/secrets'
import { startServers } from './servers.ts'
import { DATABASE_SERVICES, mainOf, type ServiceName } from '@licensing/local-servers/services'
import {
  freeAddresses,
  serviceEnvironment,
  type StackSettings,
} from '@licensing/local-servers/stack-environment'
import type { StartSettings } from './start-settings.ts'
import { SIMULATOR_MAIN, simulatorEnvironment, simulatorSettings } from '@licensing/local-servers/stripe'

/** Addresses and keys of a running stack. */
export type RunningStack = Omit<StackFile, 'pid'>

/**
 * Starts everything in a data folder: servers, databases, the simulator, the services and, last, the gateway. Disposing of
 * `started` stops everything in reverse order, also after this function has thrown.
 */
export async function startStack(
  settings: StartSettings,
  folder: DataFolder,
  started: AsyncDisposableStack,
  context: StartContext,
): Promise<RunningStack> {
  const { say, signal, waits } = context
  const { gatewayPort } = settings
  if (gatewayPort !== undefined && !(await isPortFree(gatewayPort))) {
    throw new Error(
      `port ${gatewayPort} is taken: stop the program that uses it, or set GATEWAY_PORT (0 picks a free port)`,
    )
  }
  const bundling = waits.during('the bundle of the programs', bundlePrograms(say))
  // Programs are loaded while PostgreSQL starts in another process. If a program cannot be loaded, its launch fails.
  if (settings.processes === 'one') {
    const mains = [...DATABASE_SERVICES.map(mainOf), mainOf('gateway'), SIMULATOR_MAIN]
    void bundling.then((bundled) => loadPrograms(mains.map(bundled))).catch(() => undefined)
  }
  const secrets = await loadSecrets(folder.path, settings.bootstrapKey)
  const { postgresUrl, natsUrl } = await startServers(settings, folder, started, context)
  signal.throwIfAborted()
  const { suffix, databasePasswords: passwords, bootstrapKey, portalSessionKey } = secrets
  const databaseUrls = await waits.during(
    'the databases',
    ensureDatabases({ serverUrl: postgresUrl, suffix, passwords }),
  )
  const bundled = await bundling
  const { addresses, simulatorUrl, identityProviderUrl } = await retryTakenPorts(async () => {
    const addresses = await freeAddresses(gatewayPort)
    const simulator = settings.stripeKeyGiven ? undefined : `127.0.0.1:${await freePort()}`
    const identityProvider = settings.trySignIn ? `127.0.0.1:${await freePort()}` : undefined
    const webhookSecret = settings.operator['STRIPE_WEBHOOK_SECRET'] || secrets.stripeWebhookSecret
    const stack: StackSettings = {
      addresses,
      databaseUrls,
      natsUrl,
      encryptionKeys: { licensing: secrets.encryptionKey, notifier: secrets.notifierEncryptionKey },
      bootstrapKey,
      portalSessionKey,
      operator: {
        // Each connection takes 3 MiB, and more are not needed on one machine.
        DATABASE_CONNECTIONS: '5',
        ...settings.operator,
        ...(identityProvider !== undefined && identityProviderSettings(identityProvider)),
        ...(simulator !== undefined && {
          ...simulatorSettings(simulator, webhookSecret),
          ...(settings.operator['STRIPE_API_BASE'] && {
            STRIPE_API_BASE: settings.operator['STRIPE_API_BASE'],
          }),
        }),
      },
    }
    const programs = DATABASE_SERVICES.map((service) => serviceProgram(service, stack, bundled))
    if (simulator !== undefined) {
      const publicSimulator = settings.operator['SIMULATOR_PUBLIC_URL']
      const gateway = `http://${addresses.gateway}`
      programs.push({
        name: 'stripe-simulator',
        main: bundled(SIMULATOR_MAIN),
        env: {
          PATH: process.env['PATH'] ?? '',
          ...simulatorEnvironment(simulator, gateway, webhookSecret),
          // The public address of its pages, if it is not the simulator's own.
          ...(publicSimulator && { PUBLIC_URL: publicSimulator }),
        },
        readyUrl: `http://${simulator}/healthz`,
      })
    }
    if (identityProvider !== undefined) {
      programs.push({
        name: 'identity-provider',
        main: IDENTITY_PROVIDER_MAIN,
        env: {
          PATH: process.env['PATH'] ?? '',
          ...identityProviderEnvironment(identityProvider, `http://${addresses.gateway}`),
        },
        readyUrl: `http://${identityProvider}/healthz`,
      })
    }
    // The gateway stops first, so that running requests are answered while the services still run.
    const groups = [programs, [serviceProgram('gateway', stack, bundled)]]
    const start = settings.processes === 'one' ? launchPrograms : startPrograms
    await start(groups, folder, started, context)
    return {
      addresses,
      simulatorUrl: simulator && `http://${simulator}`,
      identityProviderUrl: identityProvider && `http://${identityProvider}`,
    }
  })
  const gateway = `http://${addresses.gateway}`
  const { accountId, appId } = await waits.during(
    'the demo account',
    findDemoAccount(gateway, bootstrapKey, signal),
  )
  return {
    gateway,
    accountId,
    appId,
    databaseUrls,
    natsUrl,
    grpc: addresses.grpc,
    apiKey: bootstrapKey,
    simulatorUrl,
    identityProviderUrl,
  }
}

function serviceProgram(
  service: ServiceName,
  stack: StackSettings,
  bundled: (main: string) => string,
): Program {
  const { addresses } = stack
  const listens = service === 'gateway' ? addresses.gateway : addresses.metrics[service]
  return {
    name: service,
    main: bundled(mainOf(service)),
    env: serviceEnvironment(service, stack),
    readyUrl: `http://${listens}/readyz`,
  }
}
