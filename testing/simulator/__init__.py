"""A simulated cluster in virtual time, in which tests run the real controller."""
