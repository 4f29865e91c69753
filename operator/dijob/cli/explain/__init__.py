"""What a DIJob becomes, before anything is created: made by the operator's own code."""
