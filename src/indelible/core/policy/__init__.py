"""Policies: what a call may do, what it costs, and whom it takes. Pure."""
