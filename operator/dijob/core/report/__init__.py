"""What is said of a job: conditions, the phase and the sentence that they add up to, events."""
