/** What whoever is signed in may do, so that the page says so before the server refuses. */

import { useQuery } from '@tanstack/react-query'
import { me } from './asks'
import type { components } from './schema'

export type Scope = components['schemas']['Me']['scopes'][number]

/** Says whether one of these scopes is there; administrators have all. Until it is known, nothing is ruled out. */
export function useMay(needs: readonly Scope[]): boolean {
  const scopes = useQuery(me).data?.scopes
  return scopes === undefined || scopes.includes('admin') || needs.some((scope) => scopes.includes(scope))
}
