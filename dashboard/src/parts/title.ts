/** What the browser calls this tab: the page, and before it how much waits for a person, as mail programs do. */

import { useEffect } from 'react'
import { plainly } from './visible'

let page = ''
let waiting = ''

function write(): void {
  document.title = `${waiting && `(${waiting}) `}${page && `${plainly(page)} · `}Indelible`
}

/** Names the tab as long as the page is there. */
export function useTitle(name: string): void {
  useEffect(() => {
    page = name
    write()
    return () => {
      page = ''
      write()
    }
  }, [name])
}

/** Says in the tab's name how much waits. */
export function useWaiting(count: string): void {
  useEffect(() => {
    waiting = count
    write()
  }, [count])
}
