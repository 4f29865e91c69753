"""Reports a job to its users: conditions, events, and the phase and message that sum them up."""
