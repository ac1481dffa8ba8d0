"""What an agent process talks to, small and strict: a gateway, a models endpoint, an office on disk."""
