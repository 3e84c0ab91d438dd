import type { Api } from '../api/serve-api.ts'
import type { Deliveries } from '../delivery/deliveries.ts'

export type Control = Api & { deliveries: Deliveries; reset: () => void }
