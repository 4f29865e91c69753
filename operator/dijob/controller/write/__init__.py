"""Everything that the controller writes: the actions of a plan, the status, events."""
