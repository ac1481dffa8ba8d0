"""A terminal chat with an extension that is being written: the production agent, and a gateway of a few lines.

Not part of any pod. The agent, its runtime, its loader and its executor are the real ones; only the platform is the
terminal, and the sandbox is this machine.
"""
