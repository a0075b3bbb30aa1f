"""Who sends a request: tokens, sessions, passkeys, a provider's word."""
