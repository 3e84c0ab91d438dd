import type { SignCall } from '@licensing/grpc/callers'
import type { Connection, ServiceClient } from '@licensing/grpc/client'
import { connectTo } from '@licensing/grpc/client'
import { BillingService } from '@licensing/proto/billing'
import { CatalogService } from '@licensing/proto/catalog'
import { CustomerService } from '@licensing/proto/customers'
import { LicensingService } from '@licensing/proto/licensing'
import { NotifierService } from '@licensing/proto/notifier'
import { ProductService } from '@licensing/proto/products'
import { RootKeyService } from '@licensing/proto/root-keys'

/** Typed calls of the services behind the gateway. */
export interface Services {
  catalog: ServiceClient<typeof CatalogService>
  licensing: ServiceClient<typeof LicensingService>
  products: ServiceClient<typeof ProductService>
  customers: ServiceClient<typeof CustomerService>
  rootKeys: ServiceClient<typeof RootKeyService>
  billing: ServiceClient<typeof BillingService>
  notifier: ServiceClient<typeof NotifierService>
}

export interface ServiceAddresses {
  catalog: string
  licensing: string
  billing: string
  notifier: string
}

export interface ServiceConnections {
  calls: Services
  /** One probe for each service. It resolves if the service is serving. */
  probes: Record<keyof ServiceAddresses, () => Promise<void>>
  close(): void
}

const probeMs = 1_500

/** Opens channels to the four services. They connect lazily and reconnect by themselves. */
export function connectServices(
  addresses: ServiceAddresses,
  signFor: (service: keyof ServiceAddresses) => SignCall | undefined = () => undefined,
): ServiceConnections {
  const to = (service: keyof ServiceAddresses) => {
    const sign = signFor(service)
    return [addresses[service], sign ? { sign } : {}] as const
  }
  const catalog = connectTo(CatalogService, ...to('catalog'))
  const licensing = connectTo(LicensingService, ...to('licensing'))
  const products = connectTo(ProductService, ...to('licensing'))
  const customers = connectTo(CustomerService, ...to('licensing'))
  const rootKeys = connectTo(RootKeyService, ...to('licensing'))
  const billing = connectTo(BillingService, ...to('billing'))
  const notifier = connectTo(NotifierService, ...to('notifier'))
  const channels = [catalog, licensing, products, customers, rootKeys, billing, notifier]
  return {
    calls: {
      catalog: catalog.calls,
      licensing: licensing.calls,
      products: products.calls,
      customers: customers.calls,
      rootKeys: rootKeys.calls,
      billing: billing.calls,
      notifier: notifier.calls,
    },
    probes: {
      catalog: probe(catalog),
      licensing: probe(licensing),
      billing: probe(billing),
      notifier: probe(notifier),
    },
    close: () => channels.forEach((channel) => channel.close()),
  }
}

function probe({ serving }: Pick<Connection<typeof CatalogService>, 'serving'>): () => Promise<void> {
  return () => serving(probeMs)
}
