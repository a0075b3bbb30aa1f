"""The journal outside the core: keys, signing, sealing, verification and what is handed to others."""
