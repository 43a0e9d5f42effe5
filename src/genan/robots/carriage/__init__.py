"""A carriage on a rail with a pole that swings; for tests and examples."""
