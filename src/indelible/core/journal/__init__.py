"""The journal's mathematics: chains, trees, proofs, signed notes, witnesses. Pure."""
