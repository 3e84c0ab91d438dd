import { enableCompileCache } from 'node:module'

// Enabled before any other module is loaded, because compiling takes most of the launcher's time.
enableCompileCache(new URL('../../../node_modules/.cache/node-compile', import.meta.url).pathname)
await import('./start.ts')
