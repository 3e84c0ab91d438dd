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
  'tests/support',
  'tests/acceptance',
  'tests/resilience',
  'tests/integration',
  'tests/bench',
]

export default defineConfig({
  test: {
    projects: folders.map((folder) => ({
      test: {
        name: folder.replaceAll('/', '-'),
        root: folder,
        include: ['**/*.test.ts'],
        exclude: ['**/node_modules/**', '**/dist/**'],
        testTimeout: 30_000,
        hookTimeout: 60_000,
      },
    })),
    // Once for the whole run, not once for each project.
    globalSetup: ['tests/support/src/global-setup.ts'],
    maxWorkers: 2,
    passWithNoTests: true,
  },
})
