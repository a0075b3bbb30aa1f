import { useSyncExternalStore } from 'react'

const media = () => matchMedia('print')

function subscribe(listener: () => void): () => void {
  const query = media()
  query.addEventListener('change', listener)
  return () => query.removeEventListener('change', listener)
}

/** Says whether the page goes to paper, where all lines have to be there: nobody can scroll it. */
export function usePrinting(): boolean {
  return useSyncExternalStore(subscribe, () => media().matches)
}
