"""The models process: one OpenAI-compatible endpoint that holds provider keys, prices calls and caps offices."""
