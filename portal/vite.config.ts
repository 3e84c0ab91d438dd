import { listInputs } from '@licensing/builds/list-inputs'
import react from '@vitejs/plugin-react'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

// `npm run dev` shows the pages with the API of a running gateway, this one unless GATEWAY_URL names another.
const gateway = process.env['GATEWAY_URL'] ?? 'http://127.0.0.1:8080'

export default defineConfig({
  base: '/portal/',
  plugins: [react(), listInputs(fileURLToPath(new URL('..', import.meta.url)))],
  build: {
    target: 'baseline-widely-available',
    // A data: address would need its own entry in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: {
          // What all pages share is one file; each page is one more.
          groups: [
            { name: 'libraries', test: /node_modules/ },
            { name: 'patterns', test: /\/(?:sdk\/src|portal\/src\/(?:api|parts))\// },
          ],
        },
      },
    },
  },
  server: { proxy: { '/v1': gateway, '/portal/session': gateway } },
})
