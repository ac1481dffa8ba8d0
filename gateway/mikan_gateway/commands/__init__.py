"""Built-in commands: what the manifest of `mikan_api.commands` names, carried out by the gateway without a model."""
