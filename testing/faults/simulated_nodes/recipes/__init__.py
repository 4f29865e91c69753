"""The rows of the table: how to inject each fault and what to measure."""
