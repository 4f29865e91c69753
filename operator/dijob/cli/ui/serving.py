"""The command itself: the server on loopback, and the user's browser."""

import asyncio
import errno
import os
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass

import click
from aiohttp import web

from dijob.cli.errors import CliError, Exit
from dijob.cli.ui.guard import token
from dijob.cli.ui.hub import Hub
from dijob.cli.ui.server import application
from dijob.client import AsyncClient

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Wish:
    """What the command line asks for; port 0: a free one."""

    everywhere: bool = False
    port: int = 0
    browser: bool = True


async def serve(client: AsyncClient, wish: Wish) -> None:
    """Serve the page until Ctrl-C. Raises what a list of the jobs raises: then there is nothing to
    show; CliError where the port is taken.
    """
    await client.list(everywhere=wish.everywhere)
    key = token()
    app = application(Hub(client, wish.everywhere), key)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, _HOST, wish.port)
        try:
            await site.start()
        except OSError as error:
            raise _no_port(wish.port, error) from error
        address = f"http://{_HOST}:{runner.addresses[0][1]}/#token={key}"
        click.echo(address)
        click.echo(_hint(runner.addresses[0][1], os.environ), err=True)
        if wish.browser and has_screen(sys.platform, os.environ):
            await asyncio.to_thread(webbrowser.open, address)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _no_port(port: int, error: OSError) -> CliError:
    if error.errno == errno.EADDRINUSE:
        why = f"port {port} is taken on {_HOST}"
    else:
        why = f"port {port} cannot be used on {_HOST}: {error.strerror}"
    return CliError(f"{why}; name another one with --port, or leave it out", Exit.USAGE)


def _hint(port: int, environment: Mapping[str, str]) -> str:
    """What to do with the address."""
    if "SSH_CONNECTION" in environment:
        return (
            f"On your own machine: ssh -L {port}:{_HOST}:{port} THIS-HOST, then open the address"
            " there. Ctrl-C ends the page."
        )
    return "The address is a key to all that you may read: give it to nobody. Ctrl-C ends the page."


def has_screen(platform: str, environment: Mapping[str, str]) -> bool:
    """Whether a browser can open a window: one that runs in the terminal would take it over."""
    screens = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"}
    return platform in ("darwin", "win32") or bool(screens & environment.keys())
