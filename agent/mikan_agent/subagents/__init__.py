"""Delegated work: one task, a named profile, an isolated run, one result."""
