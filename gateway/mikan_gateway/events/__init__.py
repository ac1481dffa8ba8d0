"""What comes into a conversation without anybody's message: firings of scheduled events, and notices of agents."""
