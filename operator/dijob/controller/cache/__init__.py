"""The known DIJobs and their children, kept up to date by lists and watches (client-go's cache)."""
