"""The entrants of bench/peers.py, one module each, and what they share.

The name of the package is not `entrants`, because bench/entrants.py contains the entrants of `make
bench`.
"""
