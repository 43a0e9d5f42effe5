"""A pendulum with one motor; for tests and examples."""
