"""What does it look like while it moves? Films and windows of episodes and trials, and web pages
with the arm in 3-D, of recordings and of a live robot."""
