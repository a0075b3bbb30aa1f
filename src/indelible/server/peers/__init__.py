"""The HTTP of other ledgers, answered by the same verbs as ours."""
