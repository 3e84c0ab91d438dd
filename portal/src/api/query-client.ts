import { LicensingApiError } from '@licensing/sdk/backend'
import { MutationCache, QueryClient } from '@tanstack/react-query'

export const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      // Visible data is read again regularly. If that fails, the page says how old the data is.
      refetchInterval: 30_000,
      // If the service is unavailable for a moment, a query is repeated once. A refusal is not repeated.
      retry: (failures, error) =>
        failures < 1 && error instanceof LicensingApiError && [0, 502, 503, 504].includes(error.status),
      retryDelay: 400,
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
  // A change affects many lists: visible data is read again now, other data when it is shown next.
  mutationCache: new MutationCache({
    onSuccess: () => void queryClient.invalidateQueries(),
    // These statuses mean that the data on the screen was outdated.
    onError: (error) => {
      if (error instanceof LicensingApiError && [404, 409].includes(error.status)) {
        void queryClient.invalidateQueries()
      }
    },
  }),
})
