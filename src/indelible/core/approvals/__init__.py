"""Approvals: questions about one exact call, who answers them, and permissions given ahead. Pure."""
