import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

interface Material {
  type: 'library'
  'bom-ref': string
  name: string
  version: string
  purl: string
  licenses: { expression: string }[]
}

/**
 * The bill of materials of a bundle, as a CycloneDX document.
 *
 * @param inputs the bundled files, relative to `folder`
 */
export async function billOfMaterials(
  component: { name: string; version: string },
  folder: string,
  inputs: string[],
): Promise<object> {
  const packages = new Set<string>()
  for (const path of inputs) {
    const library = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]
    if (library !== undefined) packages.add(library)
  }
  const read = await Promise.all([...packages].map((path) => material(join(folder, path))))
  const components = new Map(read.map((each) => [each.purl, each]))
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', ...component } },
    components: [...components.values()].toSorted((a, b) => (a.purl < b.purl ? -1 : 1)),
  }
}

async function material(folder: string): Promise<Material> {
  const text = await readFile(join(folder, 'package.json'), 'utf8')
  const { name, version, license } = JSON.parse(text) as { name: string; version: string; license?: string }
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  const licenses = license === undefined ? [] : [{ expression: license }]
  return { type: 'library', 'bom-ref': purl, name, version, purl, licenses }
}
