"""Training steps on several ranks are the same steps as on one, to the noise of their precision."""
