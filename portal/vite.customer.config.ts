import { listInputs } from '@licensing/builds/list-inputs'
import react from '@vitejs/plugin-react'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

/** The page of the vendor's customers. It shares no code with the portal, so that it stays small. */
export default defineConfig({
  root: fileURLToPath(new URL('customer', import.meta.url)),
  base: '/customer/',
  plugins: [react(), listInputs(fileURLToPath(new URL('..', import.meta.url)))],
  build: {
    target: 'baseline-widely-available',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
})
