"""An S3 server on loopback: moto under waitress, since moto's own server breaks uploads."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slackwater.testing.broker import UnavailableError, fetched

SDK = {"3.5.0": ("2.35.4", "1.3.1")}
"""The client of S3 that a version of Hadoop was made with, and the reader of streams."""
MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client")
"""Those parts of the client that `hadoop-aws` uses here; all of them are 600 MB."""


class Asked(NamedTuple):
    """A request that the server was asked."""

    method: str
    path: str
    """With what is asked of it."""
    agent: str
    """The client: Hadoop's, or Arrow's."""
    sent: int
    """Bytes that came with it."""


def s3a_jars() -> list[Path]:
    """The jars by which Spark reaches it, of Hadoop's version; fetched once by Maven."""
    import pyspark

    (api,) = (Path(pyspark.__path__[0]) / "jars").glob("hadoop-client-api-*.jar")
    hadoop = api.stem.rpartition("-")[2]
    if hadoop not in SDK:
        pytest.skip(f"which client of S3 goes with Hadoop {hadoop} is not known here")
    try:
        sdk, streams = SDK[hadoop]
        reader = f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{streams}"
        connector = fetched("s3a", (f"org.apache.hadoop:hadoop-aws:{hadoop}", reader))
        client = fetched("s3", [f"software.amazon.awssdk:{one}:{sdk}" for one in MODULES], transitive=True)
    except UnavailableError as error:
        pytest.skip(f"no way for Spark to S3: {error}")
    # What Spark has, in its own version, it keeps.
    jars = (jar for folder in (connector, client) for jar in folder.glob("*.jar"))
    return sorted(jar for jar in jars if not jar.name.startswith(("netty-", "slf4j-", "commons-")))


def spark_settings(server: Mapping[str, str]) -> dict[str, str]:
    """The settings by which a session on this machine reaches the server."""
    path = ":".join(map(str, s3a_jars()))
    given = {f"spark.hadoop.{name}": value for name, value in server.items()}
    return given | {"spark.driver.extraClassPath": path, "spark.executor.extraClassPath": path}


@contextmanager
def s3_server(bucket: str = "bucket", log: Path | None = None) -> Iterator[dict[str, str]]:
    """A server with one empty bucket; the settings by which Hadoop reaches it. Requests are noted in a log."""
    moto = pytest.importorskip("moto.server", reason="moto[server] is the object store of this test")
    waitress = pytest.importorskip("waitress")
    from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
    from waitress.parser import HTTPRequestParser  # type: ignore[import-untyped]

    class Parser(HTTPRequestParser):  # type: ignore[misc]
        """A request that has no body is not asked to go on: waitress would wait for one for ever."""

        _expects = False
        expect_continue = property(
            lambda self: self._expects and not self.completed,
            lambda self, expects: setattr(self, "_expects", expects),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPChannel, "parser_class", Parser)
        app = moto.DomainDispatcherApplication(moto.create_backend_app)

        def noted(environ: dict[str, Any], respond: Any) -> Any:
            if log is not None:
                path = f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}"
                sent = int(environ.get("HTTP_X_AMZ_DECODED_CONTENT_LENGTH") or environ.get("CONTENT_LENGTH") or 0)
                one = Asked(environ["REQUEST_METHOD"], path, environ.get("HTTP_USER_AGENT", ""), sent)
                with log.open("a") as file:
                    file.write(json.dumps(one) + "\n")
            return app(environ, respond)

        server = waitress.create_server(noted, host="127.0.0.1", port=0, threads=8)
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


@contextmanager
def s3_process(log: Path) -> Iterator[dict[str, str]]:
    """The same in a process of its own, which takes no time of this one."""
    command = [sys.executable, "-m", "tests.kit.object_store", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.communicate()


def requests_in(log: Path) -> list[Asked]:
    """The requests that a server has noted."""
    return [Asked(*json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


if __name__ == "__main__":
    with s3_server(log=Path(sys.argv[1])) as made:
        sys.stdout.write(json.dumps(made) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
