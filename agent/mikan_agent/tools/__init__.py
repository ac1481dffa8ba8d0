"""What a model may do: read, bash, edit, write, attach. Tools see an `Executor` and ports, never where they run."""
