"""What to do about an Office or a Vault: level-triggered, idempotent, and without a write where nothing changed."""
