"""How much one connection may send: a bucket that fills steadily and is emptied by frames and bytes."""

FRAMES_PER_SECOND = 2_000.0
FRAME_BURST = 10_000.0
BYTES_PER_SECOND = 16.0 * 1024 * 1024
BYTE_BURST = 64.0 * 1024 * 1024


class Allowance:
    """Two token buckets, over time that the caller gives."""

    def __init__(self, now: float) -> None:
        self._then = now
        self._frames, self._bytes = FRAME_BURST, BYTE_BURST

    def take(self, size: int, now: float) -> bool:
        """Account for a frame of ``size`` bytes; whether it was allowed."""
        passed, self._then = now - self._then, now
        self._frames = min(FRAME_BURST, self._frames + passed * FRAMES_PER_SECOND) - 1
        self._bytes = min(BYTE_BURST, self._bytes + passed * BYTES_PER_SECOND) - size
        return self._frames >= 0 and self._bytes >= 0
