"""Sessions: what model and tools said to each other, as a tree in an append-only file."""
