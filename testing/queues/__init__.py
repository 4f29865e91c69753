"""Jobs with queues on the real Kueue (make kueue, docs/queues.md)."""
