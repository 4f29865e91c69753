"""Gives the main container access to the HTTP server (dijob.server): its URL, and a token that is
valid only for this server and only as long as the pod exists.
"""

from typing import Final

from dijob import names, pod
from dijob.core.options import Options
from dijob.core.render.fields import Manifest, extend_list, objects_in

AUDIENCE: Final = "di-server"
TOKEN: Final = "token"
# The kubelet refreshes the token before it expires.
TOKEN_SECONDS: Final = 3600


def add_server_access(spec: Manifest, main: Manifest, options: Options) -> None:
    """Add the URL and the token to the pod's spec and its main container, if there is a server. The
    spec and the container must be copies. Variables that the template sets are not overwritten.
    """
    if not options.server_url:
        return
    ours = {
        "DI_SERVER_URL": options.server_url,
        "DI_SERVER_TOKEN_FILE": f"{pod.SERVER_DIR}/{TOKEN}",
    }
    taken = {str(each.get("name")) for each in objects_in(main.get("env"))}
    added = [{"name": name, "value": value} for name, value in ours.items() if name not in taken]
    main["env"] = extend_list(main.get("env"), *added)
    mount = {"name": names.SERVER_VOLUME, "mountPath": pod.SERVER_DIR, "readOnly": True}
    main["volumeMounts"] = extend_list(main.get("volumeMounts"), mount)
    token = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": TOKEN}
    projected = {"sources": [{"serviceAccountToken": token}]}
    volume = {"name": names.SERVER_VOLUME, "projected": projected}
    spec["volumes"] = extend_list(spec.get("volumes"), volume)
