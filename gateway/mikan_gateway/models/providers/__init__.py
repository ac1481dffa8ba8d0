"""The upstreams: OpenAI form passed through, everything else by litellm. The scripted model is in ``scripted``."""
