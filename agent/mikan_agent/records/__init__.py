"""What the agent keeps of an office outside the model's reach: the platform log, and the directory tree itself."""
