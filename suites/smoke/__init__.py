"""The target's own training program runs, logs, saves and resumes as its users see it."""
