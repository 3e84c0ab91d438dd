import type { Api } from '../api/serve-api.ts'
import type { Deliveries } from '../delivery/deliveries.ts'
import type { Params } from '../http/params.ts'
import type { World } from '../world/world.ts'

export type Control = Api & { deliveries: Deliveries }

/** An action of a customer, a bank or a vendor, or the passing of time. Returns the object that it changed. */
export type Action = (world: World, params: Params) => object
