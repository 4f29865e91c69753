"""The page in the cluster (chart value `ui.enabled`).

Each request to the API server has the permissions of the user of the page: it is sent with the
user's own token, or impersonates the user. The server itself may read nothing
(docs/decisions/068).
"""
