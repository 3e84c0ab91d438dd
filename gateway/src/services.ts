import type { Connection, ServiceClient } from '@licensing/grpc/client'
import { connectTo } from '@licensing/grpc/client'
import { BillingService } from '@licensing/proto/billing'
import { CatalogService } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { NotifierService } from '@licensing/proto/notifier'
import { ProductService } from '@licensing/proto/products'

/** Typed calls of the services behind the gateway. */
export interface Services {
  catalog: ServiceClient<typeof CatalogService>
  licensing: ServiceClient<typeof LicensingService>
  products: ServiceClient<typeof ProductService>
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
  /** One probe a service: resolves when it says that it is serving. */
  probes: Record<keyof ServiceAddresses, () => Promise<void>>
  close(): void
}

const probeMs = 1_500

/** Opens channels to the four services; they connect lazily and reconnect by themselves. */
export function connectServices(addresses: ServiceAddresses): ServiceConnections {
  const catalog = connectTo(CatalogService, addresses.catalog)
  const licensing = connectTo(LicensingService, addresses.licensing)
  const products = connectTo(ProductService, addresses.licensing)
  const billing = connectTo(BillingService, addresses.billing)
  const notifier = connectTo(NotifierService, addresses.notifier)
  const channels = [catalog, licensing, products, billing, notifier]
  return {
    calls: {
      catalog: catalog.calls,
      licensing: licensing.calls,
      products: products.calls,
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
