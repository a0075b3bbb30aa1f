"""Who may ask a server for what: people, passkeys, credentials, a provider's word. Pure."""
