"""Suite `preflight`: the machine is what the session's runner promised, computes right, and holds what it is given."""
