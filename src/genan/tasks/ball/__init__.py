"""The table-tennis ball: flight, bounce, racket, landing, filter, launcher and recordings."""
