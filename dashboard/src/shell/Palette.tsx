import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Command } from 'cmdk'
import { useEffect, useState, type ReactNode } from 'react'
import { api, told } from '../api/client'
import type { components } from '../api/schema'
import { Dialog } from '../parts/Dialog'
import { Status } from '../parts/Status'
import { Text } from '../parts/Text'
import { placeOf, useViews } from '../parts/saved_views'
import { PAGES } from './pages'
import { change, type Theme } from './settings'

const ITEM = 'flex cursor-pointer items-center gap-2 rounded-md px-3 py-2 text-sm data-[selected=true]:bg-sunken'
const GROUP = '[&_[cmdk-group-heading]]:px-3 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:text-muted'
const THEMES: [Theme, string][] = [['light', 'Light'], ['dark', 'Dark'], ['system', 'Light or dark as the system has it']]
/** Is how long somebody has to stop typing until the server is asked, and how much it is asked for. */
const REST = 250
const MOST = 8

/** Goes anywhere by its name: to a page, a saved view, a run, a call or a question. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const [selected, setSelected] = useState('')
  const { hits, isLooking } = useHits(text)
  const first = hits[0] && nameOf(hits[0])
  useEffect(() => {
    if (first) setSelected((before) => before || first) // what came late can be opened by Enter like all the rest
  }, [first])
  const go = useNavigate()
  const views = useViews()
  const then = (act: () => unknown) => () => {
    onClose()
    act()
  }
  return (
    <Dialog title="Find or go to …" onClose={onClose}>
      <Command label="Find or go to" loop value={selected} onValueChange={(value) => setSelected(value ?? '')}>
        <Command.Input autoFocus value={text} onValueChange={setText} placeholder="a run, an id, a key, a tool, a page …" className="mb-2 w-full rounded-md border border-line bg-paper px-3 py-2" />
        <Command.List className="max-h-80 overflow-auto">
          {isLooking && <Command.Loading><p className="px-3 py-2 text-sm text-muted">Looking …</p></Command.Loading>}
          {!isLooking && hits.length === 0 && <Command.Empty className="p-3 text-sm text-muted">Nothing has such a name.</Command.Empty>}
          <Group name="Saved views">
            {views.map((view) => <Command.Item key={view.name} value={`View: ${view.name}`} onSelect={then(() => go(placeOf(view)))} className={ITEM}>View: <Text>{view.name}</Text></Command.Item>)}
          </Group>
          <Group name="Pages">{PAGES.map((page) => <Command.Item key={page.to} value={page.name} onSelect={then(() => go({ to: page.to }))} className={ITEM}>{page.name}</Command.Item>)}</Group>
          <Group name="On the record" isKept>{hits.map((hit) => <Found key={hit.kind + hit.id} hit={hit} onSelect={then(() => go(placeOfHit(hit)))} />)}</Group>
          <Group name="This browser">{THEMES.map(([theme, name]) => <Command.Item key={theme} value={`Theme: ${name}`} onSelect={then(() => change({ theme }))} className={ITEM}>Theme: {name}</Command.Item>)}</Group>
        </Command.List>
      </Command>
    </Dialog>
  )
}

function Group({ name, isKept = false, children }: { name: string; isKept?: boolean; children: ReactNode[] }) {
  if (children.length === 0) return null
  return <Command.Group heading={name} forceMount={isKept} className={GROUP}>{children}</Command.Group>
}

type Hit = components['schemas']['Hit']
const nameOf = (hit: Hit) => `${hit.kind} ${hit.id}`

/** What the server found stays in the list, whatever of it looks like what was typed. */
function Found({ hit, onSelect }: { hit: Hit; onSelect: () => void }) {
  return (
    <Command.Item forceMount value={nameOf(hit)} onSelect={onSelect} className={ITEM}>
      <span className="w-16 shrink-0 text-muted">{hit.kind}</span>
      <span className="min-w-0 flex-1 truncate"><Text>{hit.kind === 'run' ? hit.id : hit.title}</Text> <span className="text-xs text-muted"><Text>{hit.kind === 'run' ? hit.title : hit.run_id}</Text></span></span>
      <Status is={hit.status} />
    </Command.Item>
  )
}

function placeOfHit(hit: Hit) {
  if (hit.kind === 'run') return { to: '/runs/$runId', params: { runId: hit.id } } as const
  if (hit.kind === 'effect') return { to: '/effects/$effectId', params: { effectId: hit.id } } as const
  return { to: '/inbox', search: { tab: 'all', approval: hit.id } } as const
}

/** Asks for what is typed as soon as somebody stops typing. */
function useHits(text: string): { hits: readonly Hit[]; isLooking: boolean } {
  const [q, setQ] = useState('')
  const wanted = text.trim()
  useEffect(() => {
    const rest = setTimeout(() => setQ(wanted), REST)
    return () => clearTimeout(rest)
  }, [wanted])
  const { data, isFetching } = useQuery({
    queryKey: ['search', q],
    queryFn: () => told(api.GET('/v1/search', { params: { query: { q, limit: MOST } } })),
    enabled: q.length > 1,
    retry: false,
  })
  const isAsked = wanted.length > 1
  return { hits: isAsked && q === wanted ? (data?.hits ?? []) : [], isLooking: isAsked && (q !== wanted || isFetching) }
}
