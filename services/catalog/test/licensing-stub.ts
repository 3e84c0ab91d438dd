import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import type { PlanCopy } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { RootKeyService } from '@licensing/proto/root-keys'

/** The RPCs of licensing that catalog calls, over gRPC. As in licensing, the newest copy wins and an archive counts once. */
export interface LicensingStub extends AsyncDisposable {
  readonly address: string
  /** The newest copy of each plan that `syncPlans` received. */
  readonly copies: Map<string, PlanCopy>
  /** All copies that it received, in order. */
  readonly synced: PlanCopy[]
  /** Active licences by plan. */
  readonly active: Map<string, bigint>
  /** Calls that are refused as `unavailable`, by name. */
  readonly refused: Set<'syncPlans' | 'archivePlan' | 'countActiveLicences' | 'getRootKeys'>
  /** The number of applications for which root keys were requested. */
  readonly rootKeysMade: number
  /** Runs within each archivePlan, before it answers. */
  whileArchiving: () => Promise<void>
  stop(): Promise<void>
  /** Answers each call again. */
  recover(): Promise<void>
  /** Starts it again, at the same address. */
  start(): Promise<void>
}

export async function startLicensingStub(): Promise<LicensingStub> {
  const copies = new Map<string, PlanCopy>()
  const synced: PlanCopy[] = []
  let rootKeysMade = 0
  const active = new Map<string, bigint>()
  const refused: LicensingStub['refused'] = new Set()
  const suspended = new Map<string, bigint>()
  const take = (copy: PlanCopy) => {
    synced.push(copy)
    const held = copies.get(copy.id)
    if (!held || held.version < copy.version) copies.set(copy.id, copy)
  }
  const check = (call: 'syncPlans' | 'archivePlan' | 'countActiveLicences') => {
    if (refused.has(call)) throw new ServiceError('unavailable', 'refused by the test')
  }
  const handlers: Pick<
    Handlers<typeof LicensingService>,
    'syncPlans' | 'archivePlan' | 'countActiveLicences'
  > = {
    async syncPlans({ plans }) {
      check('syncPlans')
      plans.forEach(take)
      return {}
    },
    async archivePlan({ plan }) {
      check('archivePlan')
      await stub.whileArchiving()
      take(plan!)
      const archive = `${plan!.id}/${plan!.archiveVersion}`
      if (!suspended.has(archive)) {
        suspended.set(archive, active.get(plan!.id) ?? 0n)
        active.delete(plan!.id)
      }
      return { suspendedLicences: suspended.get(archive)! }
    },
    async countActiveLicences({ planIds }) {
      check('countActiveLicences')
      return { counts: planIds.map((id) => active.get(id) ?? 0n) }
    },
  }
  const rootKeyHandlers: Pick<Handlers<typeof RootKeyService>, 'getRootKeys'> = {
    async getRootKeys({ applicationIds }) {
      if (refused.has('getRootKeys')) throw new ServiceError('unavailable', 'refused by the test')
      rootKeysMade += applicationIds.length
      return { rootKeys: applicationIds.map((id) => `lrk_${id}`) }
    },
  }
  const listen = (port: number) =>
    serve({
      address: { host: '127.0.0.1', port },
      services: [
        implement(LicensingService, handlers as Handlers<typeof LicensingService>),
        implement(RootKeyService, rootKeyHandlers as Handlers<typeof RootKeyService>),
      ],
      log: createLogger('licensing-stub', 'silent'),
      health: new Health(),
    })
  let server = await listen(0)
  const { port } = server
  let isStopped = false
  const stub: LicensingStub = {
    address: `127.0.0.1:${port}`,
    copies,
    synced,
    active,
    refused,
    get rootKeysMade() {
      return rootKeysMade
    },
    whileArchiving: () => Promise.resolve(),
    stop: async () => {
      isStopped = true
      await server.stop()
    },
    recover: async () => {
      refused.clear()
      stub.whileArchiving = () => Promise.resolve()
      if (isStopped) await stub.start()
    },
    start: async () => {
      server = await listen(port)
      isStopped = false
    },
    [Symbol.asyncDispose]: () => server.stop(),
  }
  return stub
}
