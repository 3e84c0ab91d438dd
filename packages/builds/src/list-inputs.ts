import { relative } from 'node:path'
import type { Plugin } from 'vite'

/** Notes which files went into the build, for the image's bill of materials. Names with a dot are not served. */
export function listInputs(checkout: string): Plugin {
  return {
    name: 'list-inputs',
    generateBundle(_options, bundle) {
      const inputs = Object.values(bundle).flatMap((output) =>
        output.type === 'chunk' ? output.moduleIds : [],
      )
      const files = [...new Set(inputs.map((id) => relative(checkout, id.replace(/\?.*/, ''))))]
      this.emitFile({ type: 'asset', fileName: inputsFile, source: JSON.stringify(files.toSorted()) })
    },
  }
}

const inputsFile = '.inputs.json'
