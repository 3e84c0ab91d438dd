import { readFile, readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { parseAllDocuments } from 'yaml'

export interface Manifest {
  file: string
  apiVersion: string
  kind: string
  metadata: { name: string }
  spec: never
}

export const kubernetes = fileURLToPath(new URL('../../../deploy/kubernetes', import.meta.url))
export const componentNames = ['catalog', 'licensing', 'billing', 'notifier', 'gateway'] as const

/** All objects of all files except the kustomizations. */
export const manifests = await allManifests()

async function allManifests(): Promise<Manifest[]> {
  const files = (await readdir(kubernetes, { recursive: true })).filter((file) => file.endsWith('.yaml'))
  const monitoring = ['../operations/pod-monitor.yaml', '../operations/prometheus-rule.yaml']
  const read = await Promise.all(
    [...files, ...monitoring]
      .filter((file) => basename(file) !== 'kustomization.yaml')
      .toSorted()
      .map(async (file) => parseManifests(await readFile(join(kubernetes, file), 'utf8'), file)),
  )
  return read.flat()
}

export function parseManifests(text: string, file: string): Manifest[] {
  return parseAllDocuments(text).map((document) => ({ file, ...(document.toJS() as Omit<Manifest, 'file'>) }))
}

export const nameLabel = 'app.kubernetes.io/name'

/** The specification of the only object of this kind and name. */
export function specOf<Spec>(kind: string, name: string): Spec {
  const found = manifests.filter((each) => each.kind === kind && each.metadata.name === name)
  expect(found, `${kind} ${name}`).toHaveLength(1)
  return found[0]!.spec
}

export interface Peer {
  podSelector?: { matchLabels: Record<string, string> }
  namespaceSelector?: { matchLabels: Record<string, string> }
  ipBlock?: { cidr: string; except?: string[] }
}

export interface NetworkPolicy {
  podSelector: { matchLabels?: Record<string, string> }
  policyTypes: string[]
  ingress?: { ports: { port: string | number }[]; from?: Peer[] }[]
  egress: { ports: { port: string | number; endPort?: number; protocol?: string }[]; to: Peer[] }[]
}
