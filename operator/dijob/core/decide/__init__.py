"""What is done next: the plan of a pass, and the rules that it asks in turn."""
