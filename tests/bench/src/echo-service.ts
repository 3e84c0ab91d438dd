// The licensing service's contract without a database, to measure the cost of the gateway and one gRPC hop.
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { LicensingService } from '@licensing/proto/licensing'
import { ProductService } from '@licensing/proto/products'

const time = { seconds: 1_795_000_000n, nanos: 0 }
const licence = {
  id: 'lic_01k9zj3v8qe5ktw2m4x6r7n8ab',
  key: 'AAAAA-BBBBB-CCCCC-DDDDD-EEEEE',
  status: 'active',
  planId: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab',
  applicationId: 'app_01k9zj3v8qe5ktw2m4x6r7n8ab',
  externalRef: 'customer-1',
  createdAt: time,
  updatedAt: time,
}
const entitlements = Array.from({ length: 4 }, (_, at) => ({
  key: `feature_${at}`,
  kind: 'feature',
  value: 'true',
}))
const grant = {
  activationId: 'act_01k9zj3v8qe5ktw2m4x6r7n8ab',
  licenceId: licence.id,
  token: 'e'.repeat(700),
  expiresAt: time,
  refreshAfter: time,
  checkIntervalSeconds: 900,
}

const refuse = () => Promise.reject(new Error('the echo answers issue, detail and refresh only'))
const rest = (service: { methods: readonly { localName: string }[] }) =>
  Object.fromEntries(service.methods.map(({ localName }) => [localName, refuse]))

const server = await serve({
  address: { host: '127.0.0.1', port: Number(process.env.PORT ?? 0) },
  services: [
    implement(LicensingService, {
      ...rest(LicensingService),
      issueLicence: ({ fields }: { fields: { externalRef: string } }) =>
        Promise.resolve({ licence: { ...licence, externalRef: fields.externalRef }, replayed: false }),
      getLicence: () => Promise.resolve({ licence, entitlements, activations: [], callHome: [] }),
    } as unknown as Handlers<typeof LicensingService>),
    implement(ProductService, {
      ...rest(ProductService),
      refreshActivation: () => Promise.resolve(grant),
    } as unknown as Handlers<typeof ProductService>),
  ],
  log: createLogger('echo', 'warn'),
  health: new Health(),
})
process.stdin.on('end', () => process.exit(0)).resume()
process.stdout.write(`${server.port}\n`)
