"""Reading a machine (probe) apart from deciding what it is (pure), so that recorded snapshots decide in tests."""
