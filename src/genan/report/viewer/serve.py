"""The page's server: on this computer alone, quiet, and gone when it is closed."""

import contextlib
import io
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from genan.errors import SettingError

if TYPE_CHECKING:
    import viser

#: Only this computer can reach the page.
HOST = "127.0.0.1"


def check_port(port: int) -> int:
    """The port to serve on, 0 made a free one; refuses one that is not to be had."""
    if not 0 <= port < 65536:
        raise SettingError(f"A port is a number from 1 to 65535, or 0 for a free one, not {port}.")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        # As a server does it: a port whose last connections have just ended can be had again.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
            tried.listen(1)
        except OSError as error:
            raise SettingError(
                f"Port {port} of {HOST} cannot be had ({error.strerror or error}), perhaps another 'genan view' has "
                "it; choose another with --port, or --port 0 for a free one."
            ) from None
        return int(tried.getsockname()[1])


def load_viser() -> Any:
    """The package that makes the page, or the word on how to get it."""
    try:
        import viser
    except ModuleNotFoundError as error:
        raise SettingError(
            f"The viewer needs the package {error.name or 'viser'!r}, which is not installed: pip install genan[view]."
        ) from None
    return viser


@contextlib.contextmanager
def serving(port: int, *, title: str) -> "Iterator[viser.ViserServer]":
    """An empty page at ``port`` of this computer, for as long as the block lasts.

    Args:
        port: from ``check_port``.
        title: of the panel.
    """
    viser = load_viser()

    class Server(viser.ViserServer):
        def request_share_url(self, verbose: bool = True) -> str | None:
            """Never: this page stays on this computer, whatever a browser asks for."""
            return None

    with contextlib.redirect_stdout(io.StringIO()):  # it greets at length
        server = Server(host=HOST, port=port, label=title, verbose=False)
    try:
        if server.get_port() != port:  # someone was quicker
            raise SettingError(
                f"Port {port} of {HOST} was taken meanwhile; choose another with --port."
            )
        yield server
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()
