import type { ReactNode } from 'react'
import { Chips } from './Chips'
import { flawOf } from './filter'
import { FilterBox } from './FilterBox'
import { Table, type Column } from './Table'
import { useTitle } from './title'
import { Trouble } from './Trouble'
import { Views } from './Views'

type Props<Thing, Status extends string> = {
  title: string
  q: string
  example: string
  statuses: readonly Status[]
  status: Status | undefined
  onFilter: (q: string) => void
  onStatus: (status: Status) => void
  columns: readonly Column<Thing>[]
  list: {
    readonly things: readonly Thing[]
    readonly error: unknown
    readonly isSuccess: boolean
    readonly hasNextPage: boolean
    readonly isFetchingNextPage: boolean
    readonly fetchNextPage: () => unknown
    readonly refetch: () => unknown
  }
  /** What is said where nothing is found. */
  nothing: ReactNode
}

/** Shows a list with its filter, however long it is. */
export function Listing<Thing extends { readonly id: string }, Status extends string>({ title, q, example, statuses, status, onFilter, onStatus, columns, list, nothing }: Props<Thing, Status>) {
  useTitle(title)
  const isEmpty = list.isSuccess && list.things.length === 0 && !list.hasNextPage
  const more = list.hasNextPage && !list.isFetchingNextPage ? () => void list.fetchNextPage() : undefined
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="space-y-2 border-b border-line px-3 py-2">
        <div className="flex flex-wrap items-start gap-3">
          <h1 className="py-1 font-semibold">{title}</h1>
          <FilterBox q={q} onChange={onFilter} error={list.error} example={example} />
          <Views />
        </div>
        <div className="flex flex-wrap items-center gap-3">
          <Chips label="Status" of={statuses} chosen={status ? [status] : []} onChoose={onStatus} />
          <p role="status" className="ml-auto text-sm text-muted">{counted(list.things.length, title, list.hasNextPage)}</p>
        </div>
      </div>
      {list.error && !flawOf(list.error, q) ? <Trouble error={list.error} onRetry={() => void list.refetch()} /> : null}
      {isEmpty ? nothing : <Table label={title} things={list.things} columns={columns} more={more} />}
    </div>
  )
}

function counted(count: number, title: string, hasMore: boolean): string {
  if (count === 0) return hasMore ? 'looking …' : ''
  return `${count.toLocaleString('en')} ${count === 1 ? title.toLowerCase().replace(/s$/, '') : title.toLowerCase()}${hasMore ? ' so far' : ''}`
}
