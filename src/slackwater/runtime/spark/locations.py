"""From a folder as Spark knows it to one that Python reads and writes, with the credentials that executors have.

Invariant: what is given to Hadoop's file system in the session is given to Arrow's, or the folder is refused in one
sentence. Secrets travel with the task, as Hadoop's settings do.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.store import OBJECTS, At, Location

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
