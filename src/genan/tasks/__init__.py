"""What should it learn? Tasks: goals, observations, rewards, and how they are judged."""
