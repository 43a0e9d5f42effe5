"""What should it learn? Reacher, ball-in-a-cup and table tennis: goals, observations and
rewards."""
