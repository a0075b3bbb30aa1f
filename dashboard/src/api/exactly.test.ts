import { expect, it } from 'vitest'
import { exactly, longNumber } from './exactly'

it('keeps every digit of a whole number, wherever it stands, and touches nothing else', () => {
  const read = (json: string) => JSON.parse(exactly(json)) as unknown
  expect(read('{"n":9007199254740993,"m":[-9007199254740993, 12345678901234567890]}')).toEqual({
    n: { $int: '9007199254740993' },
    m: [{ $int: '-9007199254740993' }, { $int: '12345678901234567890' }],
  })
  const same = '{"a":9007199254740991,"b":1234567890123456.5,"c":1e30,"d":"9007199254740993","e":"a \\"b\\": 9007199254740993 ","f":"\\\\"}'
  expect(exactly(same)).toBe(same)
  expect(read('9007199254740993')).toBe(9007199254740992) // alone it is no answer of ours
})

it('knows a long number again', () => {
  expect(longNumber({ $int: '9007199254740993' })).toBe('9007199254740993')
  for (const other of [1, null, 'x', {}, { $int: 5 }, { $int: '1', b: 2 }, [1]]) expect(longNumber(other)).toBeNull()
})
