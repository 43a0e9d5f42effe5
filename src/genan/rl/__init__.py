"""How does it learn? PPO, compiled as a whole; training, policies, exports, other trainers."""
