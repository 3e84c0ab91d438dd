import { listInputs } from '@licensing/builds/list-inputs'
import react from '@vitejs/plugin-react'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

// `npm run dev` serves the pages with the API of a running gateway, at this address unless GATEWAY_URL is set.
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
          // The code that all pages share is in one file, and each page in another.
          groups: [
            { name: 'libraries', test: /node_modules/ },
            { name: 'patterns', test: /\/(?:sdk\/src|portal\/src\/(?:api|parts))\// },
          ],
        },
      },
    },
  },
  server: { proxy: { '/v1': gateway, '/portal/session': gateway, '/portal/sign-in': gateway } },
})
