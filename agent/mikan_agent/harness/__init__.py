"""The turn loop: a message goes to a model, its tool calls are run, until it has answered."""
