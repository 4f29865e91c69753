"""`topology`: which connections a job's processes should have, and which they have."""
