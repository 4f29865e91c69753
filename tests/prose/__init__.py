"""The prose check (make prose): Vale, with the rules in .vale, on pages and source files."""
