import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

// Enabled before any other module is loaded, because compiling takes most of the launcher's time.
enableCompileCache(fileURLToPath(new URL('../../../node_modules/.cache/node-compile', import.meta.url)))
await import('./start.ts')
