"""Development tools: images without a registry, and the cluster that `make up` and the tests use.

Standard library only, so that they run before the project's own environment exists.
"""
