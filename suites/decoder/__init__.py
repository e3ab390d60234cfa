"""Suite `decoder`: every frame that the target's loader gives is the one asked for, however it is read."""
