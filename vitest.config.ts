import { defineConfig } from 'vitest/config'

const folders = [
  'proto',
  'packages/process',
  'packages/grpc',
  'packages/database',
  'packages/events',
  'services/catalog',
  'services/licensing',
  'services/billing',
  'services/notifier',
  'gateway',
  'sdk',
  'deploy/local',
  'deploy/stripe-simulator',
  'tests/acceptance',
  'tests/resilience',
  'tests/integration',
]

export default defineConfig({
  test: {
    projects: folders.map((folder) => ({
      test: {
        name: folder.replaceAll('/', '-'),
        root: folder,
        include: ['**/*.test.ts'],
        exclude: ['**/node_modules/**'],
        globalSetup: [new URL('tests/support/src/global-setup.ts', import.meta.url).pathname],
        testTimeout: 30_000,
        hookTimeout: 60_000,
      },
    })),
    maxWorkers: 2,
  },
})
