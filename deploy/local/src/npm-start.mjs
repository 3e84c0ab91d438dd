import { enableCompileCache } from 'node:module'

// Before anything is loaded: compiling is most of what the launcher does.
enableCompileCache(new URL('../../../node_modules/.cache/node-compile', import.meta.url).pathname)
await import('./start.ts')
