"""Results of other tools as run folders, and runs in the forms of other tools."""
