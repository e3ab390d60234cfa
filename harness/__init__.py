"""A test and benchmark harness that tells whether training code still behaves, and on which machine."""

from pathlib import Path

__version__ = "0.1.0"

ROOT = Path(__file__).resolve().parent.parent
"""The repository: suites, fixtures and baselines lie beside the package."""
