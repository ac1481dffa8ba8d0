"""From values to manifests: no client, no clock, no randomness. Golden files hold every result."""
