"""`doctor`: a checklist of what makes jobs hang or fail, with a remedy for each."""
