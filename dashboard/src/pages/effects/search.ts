/** What can be chosen on the page of effects. */

import type { EffectStatus } from '../../api/effects'
import { textIn } from '../runs/search'

export const EFFECT_STATUSES: readonly EffectStatus[] = ['in_doubt', 'requires_approval', 'ready', 'processing', 'succeeded', 'failed', 'denied', 'canceled']
export type EffectsSearch = { status?: EffectStatus; q?: string }

export function effectsSearch(search: Record<string, unknown>): EffectsSearch {
  return {
    ...(EFFECT_STATUSES.includes(search.status as EffectStatus) && { status: search.status as EffectStatus }),
    ...textIn(search, 'q'),
  }
}
