"""Types that cross a process boundary, each with one builder and one parser.

Every process of mikan imports this package; it imports none of them, and no framework but pydantic. Import from the
submodules: this package re-exports nothing, so that an agent pays only for what it uses.
"""
