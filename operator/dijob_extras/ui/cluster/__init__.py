"""The page in the cluster (chart value `ui.enabled`).

Each request to the API server has the permissions of the page's user: it is sent with the user's
own token, or impersonates the user. The server itself has no permission to read anything
(docs/decisions/068).
"""
