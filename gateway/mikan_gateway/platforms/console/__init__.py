"""Platform ``console``: an authenticated local endpoint that `mikan chat` uses, so that no platform token is needed."""
