"""Packages on their way onto the packages volume: fetched, looked through, and only then put where agents look.

A process of its own, started by an admin's ``kubectl exec`` (``python -m mikan_gateway.packages``), so that the gateway
itself never runs git. No code of a package runs here.
"""
