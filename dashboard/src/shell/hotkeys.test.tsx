// @vitest-environment jsdom
import { render } from '@testing-library/react'
import { expect, it, vi } from 'vitest'
import { useHotkeys, type Hotkeys } from './hotkeys'

function Page({ keys }: { keys: Hotkeys }) {
  useHotkeys(keys)
  return <input aria-label="name" />
}

const press = (key: string, target: EventTarget = document.body, more: KeyboardEventInit = {}) =>
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }))

it('knows keys, sequences and the palette, and leaves typing alone', () => {
  const [go, arm, palette] = [vi.fn(), vi.fn(), vi.fn()]
  const { getByLabelText } = render(<Page keys={{ 'g i': go, a: arm, 'mod+k': palette }} />)
  press('g')
  press('i')
  expect(go).toHaveBeenCalledOnce()
  press('i')
  expect(go).toHaveBeenCalledOnce()
  press('a', getByLabelText('name'))
  expect(arm).not.toHaveBeenCalled()
  press('a')
  expect(arm).toHaveBeenCalledOnce()
  press('a', document.body, { ctrlKey: true })
  expect(arm).toHaveBeenCalledOnce()
  press('k', getByLabelText('name'), { ctrlKey: true })
  expect(palette).toHaveBeenCalledOnce()
})

it('takes the end of a sequence for that, also where the key alone means something in another part of the page', () => {
  const [go, move] = [vi.fn(), vi.fn()]
  function List() {
    useHotkeys({ j: move })
    return null
  }
  function Shell() {
    useHotkeys({ 'g j': go })
    return <List />
  }
  render(<Shell />)
  press('g')
  press('j')
  expect([go.mock.calls.length, move.mock.calls.length]).toEqual([1, 0])
  press('j')
  expect([go.mock.calls.length, move.mock.calls.length]).toEqual([1, 1])
})
