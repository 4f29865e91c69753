"""The command line of the page in the cluster: `python -m dijob_extras.ui.cluster`."""

import asyncio
import logging
import os
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from dijob import __version__
from dijob.kube.config import ConfigError
from dijob.process.bounded_http import Bounds, serve_app
from dijob.process.service import build_health_app, set_up_log, watch_signals

from dijob_extras.ui.cluster.server import (
    FindUser,
    PageAccess,
    build_cluster_application,
)
from dijob_extras.ui.cluster.sessions import UserSessions
from dijob_extras.ui.cluster.targets import (
    Connect,
    connect_by_impersonation,
    connect_with_token,
    find_api_server,
    read_api_server,
    read_own_credentials,
)
from dijob_extras.ui.cluster.users import (
    LEAST_SECRET,
    Headers,
    PageUser,
    ProxyTrust,
    find_proxy_user,
    find_token_user,
)

log = logging.getLogger("dijob.ui")

# All users may share the address of an ingress, so the limit per address equals the total limit. A
# user has at most six connections over HTTP/1.
BOUNDS: Final = Bounds(
    in_total=1024, of_one_address=1024, idle_seconds=30.0, stop_seconds=3.0, cancels=True
)


@dataclass(frozen=True)
class ServeOptions:
    """How the page is served. If `health_port` is 0, there are no probes."""

    auth: str
    port: int
    health_port: int
    hosts: tuple[str, ...]
    most_users: int


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--auth",
    type=click.Choice(["token", "proxy"]),
    default="token",
    show_default=True,
    help="token: users send tokens for the cluster. proxy: a login proxy names the user, who is"
    " impersonated.",
)
@click.option("--port", default=8080, show_default=True, help="Port of the page.")
@click.option(
    "--health-port",
    default=8081,
    show_default=True,
    help="Port of /livez and /readyz (0: they are not served).",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="A host name, other than localhost, under which browsers open the page. Can be repeated.",
)
@click.option(
    "--most-users",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many users may have the page open at the same time.",
)
@click.option(
    "--proxy-secret-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the secret that the login proxy sends.",
)
@click.option("--proxy-secret-header", default=ProxyTrust.secret_header, show_default=True)
@click.option("--proxy-user-header", default=ProxyTrust.user_header, show_default=True)
@click.option("--proxy-groups-header", default=ProxyTrust.groups_header, show_default=True)
@click.option("--proxy-user-prefix", default="", help="Prefix for the names of users.")
@click.option("--proxy-group-prefix", default="", help="Prefix for the names of groups.")
@click.option(
    "--proxy-user",
    "proxy_users",
    multiple=True,
    help="A user who may use the page. The name includes --proxy-user-prefix. Can be repeated."
    " Default: all users.",
)
@click.option(
    "--proxy-group",
    "proxy_groups",
    multiple=True,
    help="A group to impersonate. The name includes --proxy-group-prefix. Can be repeated."
    " The user's other groups are not impersonated.",
)
@click.option(
    "--kubeconfig", type=click.Path(exists=True), help="Kubeconfig file for use outside a cluster."
)
@click.version_option(__version__)
def main(auth: str, kubeconfig: str | None, **given: Any) -> None:
    """Serve the page to many users. Each of them sees what their own permissions allow."""
    proxy = {name: value for name, value in given.items() if name.startswith("proxy_")}
    options = ServeOptions(auth, **{name: given[name] for name in given.keys() - proxy.keys()})
    find_user = find_token_user if auth == "token" else _trust_proxy(proxy)
    set_up_log()
    connect = _connect_with_tokens if auth == "token" else _connect_as_proxy
    try:
        asyncio.run(run_page(find_user, connect(kubeconfig), options))
    except ConfigError as error:
        log.critical("%s", error)
        raise SystemExit(1) from error


async def _connect_with_tokens(kubeconfig: str | None) -> Connect:
    if kubeconfig:
        return connect_with_token(await read_api_server(kubeconfig))
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{one}", "") for one in ("HOST", "PORT"))
    return connect_with_token(find_api_server(host, port))


async def _connect_as_proxy(kubeconfig: str | None) -> Connect:
    return connect_by_impersonation(await read_own_credentials(kubeconfig))


def _trust_proxy(given: dict[str, Any]) -> FindUser:
    """Build the function that finds the user in a proxy's request, according to the options."""
    file: str | None = given["proxy_secret_file"]
    if file is None:
        raise click.UsageError("--auth proxy needs --proxy-secret-file")
    if len(_read_secret(file)) < LEAST_SECRET:
        raise click.UsageError(f"the secret in {file} has fewer than {LEAST_SECRET} characters")
    trust = ProxyTrust(
        user_header=given["proxy_user_header"],
        groups_header=given["proxy_groups_header"],
        secret_header=given["proxy_secret_header"],
        user_prefix=given["proxy_user_prefix"],
        group_prefix=given["proxy_group_prefix"],
        users=frozenset(given["proxy_users"]),
        groups=frozenset(given["proxy_groups"]),
    )

    def find_user(headers: Headers) -> PageUser:
        # The kubelet updates the file when the Secret changes.
        return find_proxy_user(headers, trust, _read_secret(file))

    return find_user


def _read_secret(file: str) -> str:
    return Path(file).read_text().strip()


async def run_page(find_user: FindUser, connect: Awaitable[Connect], options: ServeOptions) -> None:
    """Serve the page until SIGTERM or SIGINT. Raises ConfigError."""
    stop = watch_signals()
    sessions = UserSessions(await connect, options.most_users)
    app = build_cluster_application(PageAccess(options.auth, find_user, options.hosts, sessions))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serve_app(app, options.port, BOUNDS))
        if options.health_port:
            await stack.enter_async_context(serve_app(build_health_app(), options.health_port))
        log.info("serving the page on port %d", options.port)
        await stop.wait()
        # Streams do not end by themselves, so the server would wait for them when it shuts down.
        sessions.end_streams()


if __name__ == "__main__":
    main()
