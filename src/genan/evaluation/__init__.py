"""Does it work, with what certainty? Judging robots, models and policies."""
