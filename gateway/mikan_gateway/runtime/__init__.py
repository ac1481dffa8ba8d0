"""Conversations at work: which run is next, who does it, what becomes of it.

The database holds the truth (`mikan_gateway.storage`); beside it, in memory, `WorkBoard` holds what is unfinished, and
changes only right after a commit, in the order of commits.
"""
