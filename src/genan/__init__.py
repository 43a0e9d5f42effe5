"""genan: actuator networks from joint positions alone."""
