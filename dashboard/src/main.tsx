import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { HOME, Problem } from './api/client'
import { makeRouter } from './routes'
import { followSystem } from './shell/settings'
import './style.css'

followSystem()

/** Whoever is not signed in any more goes to the door, and comes back to where they were. */
function toTheDoor(error: unknown): void {
  if (!(error instanceof Problem) || error.status !== 401) return
  const door = new URL('signin', HOME)
  door.searchParams.set('next', location.pathname + location.search)
  location.assign(door)
}

const questions = new QueryClient({
  queryCache: new QueryCache({ onError: toTheDoor }),
  defaultOptions: {
    queries: {
      retry: (count, error) => count < 2 && (!(error instanceof Problem) || error.status === 0 || error.status >= 500),
      staleTime: 5_000,
      refetchOnWindowFocus: true,
    },
  },
})

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={questions}>
      <RouterProvider router={makeRouter(questions)} />
    </QueryClientProvider>
  </StrictMode>,
)
