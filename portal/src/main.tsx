import './tokens.css'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './api/query-client.ts'
import { KeyInAddress, takeKeyFromAddress } from './frame/key-in-address.tsx'
import { Announcer } from './parts/announce.tsx'
import { makeRouter } from './router.tsx'

takeKeyFromAddress()
const router = makeRouter()

createRoot(document.querySelector('#root')!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
      <KeyInAddress />
      <Announcer />
    </QueryClientProvider>
  </StrictMode>,
)
