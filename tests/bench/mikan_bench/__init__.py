"""Figures of an installed release, each beside its floor from the same run."""
