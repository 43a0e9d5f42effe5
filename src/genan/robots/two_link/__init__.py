"""A planar two-link arm that hangs down; for tests and examples."""
