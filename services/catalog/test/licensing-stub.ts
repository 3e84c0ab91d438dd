import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { create } from '@bufbuild/protobuf'
import { ResolvedEntitlementSchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { RootKeyService } from '@licensing/proto/root-keys'

/** The RPCs of licensing that catalog calls, over gRPC. As in licensing, the newest copy wins and an archive counts once. */
export interface LicensingStub extends AsyncDisposable {
  readonly address: string
  /** The newest copy of each plan that `syncPlans` received. */
  readonly copies: Map<string, PlanCopy>
  /** The number of changes of definitions that it received. */
  readonly definitionPushes: number
  /** All copies that it received whole or changed, in order. */
  readonly synced: PlanCopy[]
  /** Active licences by plan. */
  readonly active: Map<string, bigint>
  /** Calls that are refused as `unavailable`, by name. */
  readonly refused: Set<
    'syncPlans' | 'syncDefinitions' | 'archivePlan' | 'countActiveLicences' | 'getRootKeys'
  >
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
  let definitionPushes = 0
  const active = new Map<string, bigint>()
  const refused: LicensingStub['refused'] = new Set()
  const suspended = new Map<string, bigint>()
  const take = (copy: PlanCopy) => {
    synced.push(copy)
    const held = copies.get(copy.id)
    if (!held || held.version < copy.version) copies.set(copy.id, copy)
  }
  const check = (call: 'syncPlans' | 'syncDefinitions' | 'archivePlan' | 'countActiveLicences') => {
    if (refused.has(call)) throw new ServiceError('unavailable', 'refused by the test')
  }
  const handlers: Pick<
    Handlers<typeof LicensingService>,
    'syncPlans' | 'syncDefinitions' | 'archivePlan' | 'countActiveLicences'
  > = {
    async syncPlans({ plans }) {
      check('syncPlans')
      plans.forEach(take)
      return {}
    },
    async syncDefinitions({ definitions, plans, epoch, expiringNoticeDays }) {
      check('syncPlans')
      definitionPushes += 1
      const outdated = plans.filter(({ planId, fromVersion, version, values }) => {
        const held = copies.get(planId)
        if (held && held.version >= version) return false
        if (held?.version !== fromVersion) return true
        const changed = new Set(definitions.map(({ key }) => key))
        const entitlements = [
          ...held.entitlements.filter(({ key }) => !changed.has(key)),
          ...definitions
            .filter(({ deleted }) => !deleted)
            .map(({ key, kind, default: fallback }) =>
              create(ResolvedEntitlementSchema, {
                key,
                kind,
                value: values[key] ?? fallback,
                default: fallback,
              }),
            ),
        ].toSorted((a, b) => (a.key < b.key ? -1 : 1))
        take({
          ...held,
          version,
          epoch,
          entitlements,
          expiringNoticeDays: expiringNoticeDays ?? held.expiringNoticeDays,
        })
        return false
      })
      return { outdatedPlanIds: outdated.map(({ planId }) => planId) }
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
    get definitionPushes() {
      return definitionPushes
    },
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
