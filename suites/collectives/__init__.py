"""Suite `collectives`: what ranks give one another arrives whole, summed right, the same each time, and how fast."""
