"""Suite `failfast`: bad video ends in the decoder's own error, soon, and never in partial or wrong data."""
