import { useSyncExternalStore } from 'react'

const media = () => matchMedia('(max-width: 47.99rem)')

function subscribe(listener: () => void): () => void {
  const query = media()
  query.addEventListener('change', listener)
  return () => query.removeEventListener('change', listener)
}

/** Says whether the page is narrow: on a phone, or enlarged four times. */
export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => media().matches)
}
