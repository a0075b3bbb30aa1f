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
