"""Modules that stand in for packages which are on no index, only where the real ones are missing."""
