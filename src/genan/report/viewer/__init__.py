"""What does it look like while it moves? A web page with the arm in 3-D, of recordings and of a
live robot."""
