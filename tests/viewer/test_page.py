import socket
import threading
import urllib.request

import pytest

pytest.importorskip("viser", reason="The viewer needs viser: pip install genan[view].")

from genan.errors import SettingError
from genan.viewer.page import check_port, serving


def test_a_port_in_use_is_refused_by_name_and_flag() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match=rf"Port {port} .*--port"):
            check_port(port)
    assert check_port(port) == port  # and now it can be had
    with pytest.raises(SettingError, match="65535"):
        check_port(70000)


def test_the_page_is_there_for_this_computer_alone_and_gone_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = set(threading.enumerate())
    with serving(check_port(0)) as server:
        port = server.get_port()
        assert server.get_host() == "127.0.0.1" and server.request_share_url() is None
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10) as answer:
            assert answer.status == 200 and b"<html" in answer.read().lower()
    assert capsys.readouterr().out == ""
    with socket.socket() as free:
        assert free.connect_ex(("127.0.0.1", port)) != 0
    assert not [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]
