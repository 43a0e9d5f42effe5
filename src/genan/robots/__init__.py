"""Robots that come with genan, one folder each. Nothing in genan imports them: they are found by
the entry points ``genan.robots``, as a robot of another package is."""
