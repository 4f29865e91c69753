"""What is written: the objects that are created, and the annotations that an address list
becomes.
"""
