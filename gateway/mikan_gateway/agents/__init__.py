"""Agents' connections: who may connect, frames in and out, and the bytes that go beside them.

What a frame means for a conversation is decided by `mikan_gateway.runtime`.
"""
