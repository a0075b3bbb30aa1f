// @vitest-environment jsdom
import { expect, it } from 'vitest'
import { isOurs, placeOf, saveView } from './saved_views'

const kept = () => JSON.parse(localStorage.getItem('indelible.views /') ?? '[]') as { name: string }[]

it('keeps one address for each name, in order', () => {
  saveView({ name: 'failed', href: '/runs?status=failed' })
  saveView({ name: 'big refunds', href: '/effects?q=args.amount%3A%3E1000' })
  saveView({ name: 'failed', href: '/runs?status=failed&q=since%3A24h' })
  expect(kept()).toEqual([{ name: 'big refunds', href: '/effects?q=args.amount%3A%3E1000' }, { name: 'failed', href: '/runs?status=failed&q=since%3A24h' }])
})

it('leads where it was saved', () => {
  expect(placeOf({ name: 'x', href: '/events?kinds=%5B%22runs%22%5D&q=actor%3Aana' })).toEqual({ to: '/events', search: { kinds: ['runs'], q: 'actor:ana' } })
  expect(placeOf({ name: 'x', href: '/runs' })).toEqual({ to: '/runs', search: {} })
})

it('leads to pages of ours alone', () => {
  for (const href of ['/runs', '/effects?status=failed', '/events?q=actor%3Aana']) expect(isOurs(href)).toBe(true)
  for (const href of ['//evil.example/runs', 'https://evil.example/runs', 'javascript:alert(1)', '/runsx', '/settings', 'runs', null, 5]) {
    expect(isOurs(href)).toBe(false)
    saveView({ name: 'bad', href: href as string })
  }
  expect(kept().map((one) => one.name)).not.toContain('bad')
})
