"""A test and benchmark harness that tells whether training code still behaves, and on which machine."""

__version__ = "0.1.0"
