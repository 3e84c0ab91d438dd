import { readFile, readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
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
export async function allManifests(): Promise<Manifest[]> {
  const files = (await readdir(kubernetes, { recursive: true }))
    .filter((file) => file.endsWith('.yaml') && basename(file) !== 'kustomization.yaml')
    .toSorted()
  const read = await Promise.all(
    files.map(async (file) => parseManifests(await readFile(join(kubernetes, file), 'utf8'), file)),
  )
  return read.flat()
}

export function parseManifests(text: string, file: string): Manifest[] {
  return parseAllDocuments(text).map((document) => ({ file, ...(document.toJS() as Omit<Manifest, 'file'>) }))
}
