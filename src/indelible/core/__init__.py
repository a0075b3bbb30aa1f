"""The rules, pure: no I/O, no clock, no randomness. `steps.next_step` decides every move of every effect.

Read first: `commands` (what is asked), `steps` (what is legal), `changes` (what is written), `batch` (many at once),
`effects/walk` (the whole story of a call). Each folder is one thing they know of: values, effects, approvals, policy,
runs, the journal, privacy, people; and how all of it is filtered, asked from afar and verified.
"""
