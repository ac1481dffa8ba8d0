"""Names of files that come from outside, the same for every platform."""


def sanitized(name: str) -> str:
    """A file name of plain characters, for a directory that shells look into."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name).lstrip(".")
    return plain[-100:] or "file"
