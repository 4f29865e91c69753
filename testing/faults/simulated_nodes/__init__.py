"""A table of single faults on simulated nodes, each with a bound: `make faults`."""
