"""An S3 server on loopback: moto under waitress, since moto's own server breaks uploads."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def s3_server(bucket: str = "bucket") -> Iterator[dict[str, str]]:
    """A server with one empty bucket; the settings by which Hadoop reaches it."""
    moto = pytest.importorskip("moto.server", reason="moto[server] is the object store of this test")
    waitress = pytest.importorskip("waitress")
    from waitress.channel import HTTPChannel
    from waitress.parser import HTTPRequestParser

    class Parser(HTTPRequestParser):
        """A request that has no body is not asked to go on: waitress would wait for one for ever."""

        _expects = False
        expect_continue = property(
            lambda self: self._expects and not self.completed,
            lambda self, expects: setattr(self, "_expects", expects),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPChannel, "parser_class", Parser)
        app = moto.DomainDispatcherApplication(moto.create_backend_app)
        server = waitress.create_server(app, host="127.0.0.1", port=0)
        threading.Thread(target=server.run, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.effective_port}"
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")) as done:
            assert done.status == 200
        yield {
            "fs.s3a.access.key": "key",
            "fs.s3a.secret.key": "secret",
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.path.style.access": "true",
        }
        server.close()
