"""The suites: a folder of tests each, judged by `harness report`."""
