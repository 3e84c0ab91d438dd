import { LicensingApiError } from '@licensing/sdk/backend'
import { MutationCache, QueryClient } from '@tanstack/react-query'

export const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      // What is unavailable for a moment is asked for once more; a refusal stays one.
      retry: (failures, error) =>
        failures < 1 && error instanceof LicensingApiError && [0, 502, 503, 504].includes(error.status),
      retryDelay: 400,
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
  // A change shows in many lists: what is on the screen is read again, and the rest when it is next shown.
  mutationCache: new MutationCache({
    onSuccess: () => void queryClient.invalidateQueries(),
    // What was shown is no longer so.
    onError: (error) => {
      if (error instanceof LicensingApiError && [404, 409].includes(error.status)) {
        void queryClient.invalidateQueries()
      }
    },
  }),
})
