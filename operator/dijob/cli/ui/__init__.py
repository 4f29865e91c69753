"""`kubectl dijob ui`: a page of this machine's own, which shows jobs and changes nothing."""
