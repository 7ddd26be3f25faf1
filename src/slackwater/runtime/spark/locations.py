"""From a folder as Spark knows it to one that Python reads and writes, with the credentials that executors have.

Invariant: what is given to Hadoop's file system in the session is given to Arrow's, or the folder is refused in one
sentence. Secrets travel with the task, as Hadoop's settings do.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from urllib.parse import urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.state.root import StateRoot
from slackwater.runtime.spark.store import OBJECTS, At, Location

STATE = "slackwater-state"
"""The folder of the state of shards, in a checkpoint or beside it."""
STATE_SETTING, CHECKPOINT_SETTING = "spark.slackwater.state", "spark.sql.streaming.checkpointLocation"
Setting = Callable[[str], str | None]
KEYS = ("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider")
FOUND = ("DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider", "IAMInstanceCredentialsProvider")
"""Providers that look where Arrow looks by itself."""
MAPPED = (*KEYS, *FOUND, "AnonymousAWSCredentialsProvider", "EnvironmentVariableCredentialsProvider")


def location_of(spark: SparkSession, folder: str) -> At | None:
    """A folder as Python reaches it; None over Connect, where only the server knows."""
    try:
        jvm, hadoop = spark._jvm, spark._jsc.hadoopConfiguration()
        given = jvm.org.apache.hadoop.fs.Path(folder)  # type: ignore[union-attr]
        uri = given.toUri()
        if uri.getScheme() in (None, "file"):
            uri = given.getFileSystem(hadoop).makeQualified(given).toUri()
        if uri.getScheme() == "file":
            return str(uri.getPath())
        whole = f"{uri.getScheme()}://{uri.getAuthority() or ''}{uri.getPath()}"
    except (PySparkException, Py4JError, AttributeError):
        return None
    return located(whole.rstrip("/"), lambda name: hadoop.get(name))


def state_of_checkpoint(spark: SparkSession, checkpoint: str) -> StateRoot:
    """Where the state of a query that we start is kept."""
    return _root(spark, f"{checkpoint}/{STATE}", None)


def state_root(spark: SparkSession, asked: str | os.PathLike[str] | None, within: str, stacklevel: int) -> StateRoot:
    """Where the state of a DataFrame is kept that somebody else starts: as asked, else as a setting of the session
    says, else beside its checkpoints, else in a temporary folder."""
    checkpoints = spark.conf.get(CHECKPOINT_SETTING, None)
    beside = f"{checkpoints.rstrip('/')}/{STATE}" if checkpoints else None
    folder = (os.fspath(asked) if asked is not None else None) or spark.conf.get(STATE_SETTING, None) or beside
    if folder is None:
        folder = temporary_folder(
            spark, f"name a folder that all machines share for the state: state='folder', or set {STATE_SETTING}"
        )
        warnings.warn(
            f"state is kept in {folder}, and goes when this program ends; to go on after that, name a folder with"
            f" state=..., or set {STATE_SETTING}",
            stacklevel=stacklevel + 1,
        )
    return _root(spark, folder.rstrip("/"), within)


def _root(spark: SparkSession, folder: str, within: str | None) -> StateRoot:
    found = location_of(spark, folder)
    if found is None:
        # Over Connect the folder is one that the server knows.
        return StateRoot(Location(folder) if "://" in folder else folder, within, made=False)
    return StateRoot(found, within)


def temporary_folder(spark: SparkSession, remedy: str) -> str:
    """A folder that goes when this process ends; refused where other machines take part."""
    if not (spark.conf.get("spark.master", None) or "local").startswith("local"):
        raise UsageError(remedy)
    folder = tempfile.mkdtemp(prefix="slackwater-")
    # Not before the process ends: a query goes on when its handle is forgotten.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def located(uri: str, setting: Setting) -> Location:
    """A folder that is not of this machine, as Python reaches it by these settings of Hadoop.

    >>> located("s3a://b/c", {"fs.s3a.access.key": "k", "fs.s3a.endpoint": "http://127.0.0.1:9"}.get).settings
    (('access_key', 'k'), ('endpoint_override', '127.0.0.1:9'), ('region', 'us-east-1'), ('scheme', 'http'))
    """
    parts = urlsplit(uri)
    if OBJECTS.get(parts.scheme) == "s3":
        return Location(uri, tuple(sorted(_of_s3(uri, parts.netloc, setting).items())))
    if OBJECTS.get(parts.scheme) == "abfs":
        return Location(uri, _of_azure(uri, setting))
    return Location(uri)


def _of_s3(uri: str, bucket: str, setting: Setting) -> dict[str, str]:
    """What Hadoop's S3 connector is told, for Arrow's; settings of a bucket go before those of all."""

    def told(name: str) -> str | None:
        return setting(f"fs.s3a.bucket.{bucket}.{name}") or setting(f"fs.s3a.{name}")

    providers = [one.strip().rpartition(".")[2] for one in (told("aws.credentials.provider") or "").split(",")]
    strange = [one for one in providers if one and one not in MAPPED]
    if strange and told("access.key") is None:
        raise UsageError(
            f"{uri}: the credentials come from {strange[0]}, which only Hadoop knows; set fs.s3a.access.key and"
            " fs.s3a.secret.key, or let workers find credentials in their environment"
        )
    names = {
        "access_key": "access.key",
        "secret_key": "secret.key",
        "session_token": "session.token",
        "region": "endpoint.region",
    }
    found = {ours: value for ours, theirs in names.items() if (value := told(theirs))}
    if "AnonymousAWSCredentialsProvider" in providers and "access_key" not in found:
        found["anonymous"] = "true"
    endpoint = told("endpoint")
    if endpoint and not endpoint.endswith("amazonaws.com"):
        scheme, _, host = endpoint.rpartition("://")
        plain = (told("connection.ssl.enabled") or "true") == "false"
        found |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or ("http" if plain else "https")}
        found.setdefault("region", "us-east-1")
    return found


def _of_azure(uri: str, setting: Setting) -> tuple[tuple[str, str], ...]:
    host = urlsplit(uri).hostname or ""
    account = host.partition(".")[0]
    key = setting(f"fs.azure.account.key.{host}")
    return (("account_name", account), *((("account_key", key),) if key else ()))
