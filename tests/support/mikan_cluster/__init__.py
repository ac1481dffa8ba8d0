"""Handles for tests on a real cluster: kubectl, helm, an installed release and its console."""
