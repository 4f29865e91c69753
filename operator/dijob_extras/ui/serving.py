"""Runs the command: starts the server on loopback, and opens the user's browser."""

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
from dijob.client import AsyncClient

from dijob_extras.ui.guard import new_token
from dijob_extras.ui.hub import Hub
from dijob_extras.ui.server import build_application

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Wish:
    """The options of the command. Port 0 means a free port. With `measure`, the use of resources is
    also measured in the pods.
    """

    everywhere: bool = False
    port: int = 0
    browser: bool = True
    measure: bool = False


async def serve_page(client: AsyncClient, wish: Wish) -> None:
    """Serve the page until Ctrl-C. Raises CliError if the port is in use.

    If the jobs cannot be listed, there is nothing to show, so the error of the list request is
    raised.
    """
    await client.list(everywhere=wish.everywhere)
    key = new_token()
    app = build_application(Hub(client, wish.everywhere, wish.measure), key)
    # The streams never end on their own, so the shutdown must not wait for them.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, _HOST, wish.port)
        try:
            await site.start()
        except OSError as error:
            raise _no_port(wish.port, error) from error
        # The key is in the fragment, which browsers never send to a server.
        address = f"http://{_HOST}:{runner.addresses[0][1]}/#token={key}"
        click.echo(address)
        click.echo(_advise_on_url(runner.addresses[0][1], os.environ), err=True)
        if wish.browser and has_screen(sys.platform, os.environ):
            await asyncio.to_thread(webbrowser.open, address)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _no_port(port: int, error: OSError) -> CliError:
    if error.errno == errno.EADDRINUSE:
        why = f"port {port} is in use on {_HOST}"
    else:
        why = f"port {port} cannot be used on {_HOST}: {error.strerror}"
    return CliError(f"{why}: choose another port with --port, or omit the option", Exit.USAGE)


def _advise_on_url(port: int, environment: Mapping[str, str]) -> str:
    """Return advice about the URL."""
    if "SSH_CONNECTION" in environment:
        return (
            f"On your own machine, run ssh -L {port}:{_HOST}:{port} THIS-HOST, and open the URL"
            " there. Press Ctrl-C to stop."
        )
    return "Anyone with this URL has your read access: do not share it. Press Ctrl-C to stop."


def has_screen(platform: str, environment: Mapping[str, str]) -> bool:
    """Return whether a browser can open a window.

    Without a screen, webbrowser would start a text browser in this terminal.
    """
    screens = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"}
    return platform in ("darwin", "win32") or bool(screens & environment.keys())
