"""Checkpoints: what is saved is what is loaded, at any world size, after any kill, or an error says why not."""
