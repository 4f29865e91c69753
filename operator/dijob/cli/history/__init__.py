"""Formats the records of the history as tables and text."""
