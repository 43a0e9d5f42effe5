"""The zoo: virtual robots that nothing in genan knows. Each is a folder found by its entry point,
as a robot of your own would be, and moves by physics that no simulator in genan shares."""
