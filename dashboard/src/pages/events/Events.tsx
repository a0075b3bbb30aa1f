import { useNavigate, useSearch } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown } from 'lucide-react'
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { Button } from '../../parts/Button'
import { Chips } from '../../parts/Chips'
import { Empty } from '../../parts/Empty'
import { flawOf } from '../../parts/filter'
import { FilterBox } from '../../parts/FilterBox'
import { useTitle } from '../../parts/title'
import { Trouble } from '../../parts/Trouble'
import { Views } from '../../parts/Views'
import { EventLine } from './EventLine'
import { useTail } from './following'
import { filterOf, KINDS, SIDES, toggled, type EventsSearch } from './search'
import type { Tail } from './tail'

/** Shows what happens as it happens, the newest below; whoever scrolls up reads in peace. */
export function Events() {
  useTitle('Events')
  const search = useSearch({ from: '/events' })
  const go = useNavigate({ from: '/events' })
  const q = filterOf(search)
  const { tail, error, isPending, older, follow } = useTail(q)
  const choose = useCallback((part: EventsSearch) => void go({ search: (before) => ({ ...before, ...part }), replace: true }), [go])
  const filter = useCallback((text: string) => choose({ q: text.trim() ? text : undefined } as EventsSearch), [choose])
  const isEmpty = !isPending && !error && tail.shown.length === 0
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="space-y-2 border-b border-line px-3 py-2">
        <div className="flex flex-wrap items-start gap-3">
          <h1 className="py-1 font-semibold">Events</h1>
          <FilterBox q={search.q ?? ''} onChange={filter} error={error} example="run:order-123 actor:ana -type:run_*" />
          <Views />
        </div>
        <div className="flex flex-wrap items-center gap-x-6 gap-y-1">
          <Chips label="What happened" of={KINDS} chosen={search.kinds ?? []} onChoose={(kind) => choose({ kinds: toggled(search.kinds ?? [], kind) })} />
          <Chips label="Side effect" of={SIDES} chosen={search.sides ?? []} onChoose={(side) => choose({ sides: toggled(search.sides ?? [], side) })} />
        </div>
      </div>
      {error && !flawOf(error, search.q ?? '') && <Trouble error={error} />}
      {isEmpty && (
        <Empty title={older ? 'Nothing like that among the newest events' : 'Nothing happened yet'}>
          {older ? <Button onClick={() => void older()}>Look further back</Button> : 'Events are listed here as soon as they are sealed, a moment after they happen.'}
        </Empty>
      )}
      {!isEmpty && <List tail={tail} older={older} onFollow={follow} />}
    </div>
  )
}

const HEIGHT = 34

function List({ tail, older, onFollow }: { tail: Tail; older: (() => Promise<void>) | undefined; onFollow: (on: boolean) => void }) {
  const pane = useRef<HTMLDivElement>(null)
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set())
  const { shown, held, isFollowing } = tail
  const lines = useVirtualizer({
    count: shown.length,
    getScrollElement: () => pane.current,
    estimateSize: () => HEIGHT,
    getItemKey: (index) => shown[index]!.index ?? index,
    overscan: 15,
  })
  const first = useRef(shown[0]?.index)
  useLayoutEffect(() => {
    const before = first.current
    first.current = shown[0]?.index
    const at = shown.findIndex((entry) => entry.index === before)
    if (!isFollowing && at > 0) lines.scrollToIndex(at, { align: 'start' }) // older ones came in above
  }, [shown, isFollowing, lines])
  useEffect(() => {
    if (isFollowing && shown.length > 0) lines.scrollToIndex(shown.length - 1, { align: 'end' })
  }, [shown, isFollowing, lines])
  const scrolled = () => {
    const element = pane.current
    if (element) onFollow(element.scrollHeight - element.scrollTop - element.clientHeight < HEIGHT)
  }
  const toggle = (index: number) => {
    onFollow(false)
    setOpened((before) => new Set(toggled([...before], index)))
  }
  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <div ref={pane} onScroll={scrolled} tabIndex={0} role="region" aria-label="Events" className="min-h-0 flex-1 overflow-auto">
        {older && <Button className="m-2" onClick={() => { onFollow(false); void older() }}>Older events</Button>}
        <ol className="relative" style={{ height: lines.getTotalSize() }}>
          {lines.getVirtualItems().map((item) => {
            const entry = shown[item.index]!
            return (
              <li key={item.key} ref={lines.measureElement} data-index={item.index} className="absolute inset-x-0 border-b border-line/60" style={{ top: item.start }}>
                <EventLine of={entry} isOpen={opened.has(entry.index ?? -1)} onToggle={() => toggle(entry.index ?? -1)} />
              </li>
            )
          })}
        </ol>
      </div>
      {!isFollowing && (
        <Button look="main" className="absolute right-4 bottom-4 shadow" onClick={() => onFollow(true)}>
          <ArrowDown size={15} aria-hidden /> {held.length > 0 ? `${held.length.toLocaleString('en')} new: follow` : 'Follow'}
        </Button>
      )}
      <p role="status" className="sr-only">{isFollowing ? 'New events are shown as they come.' : 'New events wait.'}</p>
    </div>
  )
}
