"""`kubectl dijob watch`: what is shown, and how it is kept up to date."""
