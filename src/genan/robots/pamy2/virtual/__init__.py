"""What plays the real PAMY2? Muscles, valves, tendons, encoders, drift; a cup, a racket, balls.
Nothing that learns or simulates may import it: what crosses is recorded q and u, and commands."""
