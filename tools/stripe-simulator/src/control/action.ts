import type { Params } from '../http/params.ts'
import type { World } from '../world/world.ts'

/** What a customer, a bank, a vendor or time does. Answers with the object that it changed. */
export type Action = (world: World, params: Params) => object
