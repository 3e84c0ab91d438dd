import { relative } from 'node:path'
import type { Plugin } from 'vite'

/** Lists the files that a build contains, for the image's bill of materials. The list is not served: its name begins with a dot. */
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
