"""Sessions of Apache Spark: the one that is there, or one that is started; and its errors in a sentence."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from faircount.core.errors import FaircountError, InputError, UsageError

ROWS_AT_ONCE = 64
"""So many rows are handed to Python at once: each may be as large as 16 MB."""

_SETTINGS = {"spark.ui.showConsoleProgress": "false"}
_PYTHON_SETTING = "spark.pyspark.python"
_CONNECT, _CONNECT_PORT = "sc://", 15002
_STANDALONE, _STANDALONE_PORT = "spark://", 7077
_SECONDS_TO_ANSWER = 10
_PYTHON_ERROR = re.compile(r"[A-Za-z_]\w*(?:Error|Exception): ")
_JAVA_ERROR = re.compile(r"(?:Caused by: |Exception in thread \S+ )?((?:org|java)\.\S.*)")


@contextlib.contextmanager
def open_session(master: str | None, settings: Mapping[str, str]) -> Iterator[Any]:
    """Give a session with the cluster at an address, or the one that is there.

    A session that was there is left alone, one that is started here is stopped.
    """
    with without_warnings():
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise UsageError("--engine spark needs PySpark: pip install 'faircount[spark]'") from None
        there = SparkSession.getActiveSession()
    if there is not None:
        if master is not None or settings:
            raise UsageError("--master, --spark-conf: a Spark session is already there; leave both out to use it")
        yield there
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ
    if master is None and not submitted:
        raise UsageError(
            "--engine spark: no Spark session here; name the cluster with --master, such as spark://host:7077, "
            "sc://host:15002 or local[4]"
        )
    session = _started(SparkSession.builder, master, settings)
    try:
        yield session
    finally:
        if not submitted:
            with _stderr_elsewhere():
                session.stop()


def _started(builder: Any, master: str | None, settings: Mapping[str, str]) -> Any:
    # Executors run the Python of the same place, unless another is named; Spark itself reads that setting only where
    # spark-submit starts the program.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _PYTHON_SETTING in settings:
        os.environ["PYSPARK_PYTHON"] = settings[_PYTHON_SETTING]
    builder = builder.appName("faircount")
    if master is not None:
        _refuse_silent_address(master)
        builder = builder.remote(master) if master.startswith(_CONNECT) else builder.master(master)
    for name, value in (_SETTINGS | dict(settings)).items():
        builder = builder.config(name, value)
    # It writes a trace of every call that an interrupt breaks off.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with _stderr_elsewhere() as said, without_warnings():
        try:
            session = builder.getOrCreate()
        except Exception as error:  # noqa: BLE001 (Spark raises many kinds, all of which mean that it did not start)
            raise explained(error, said()) from None
        finally:
            # Spark's own handler could interrupt a clean-up.
            with contextlib.suppress(ValueError):
                for number, handler in handlers.items():
                    signal.signal(number, handler)
    with contextlib.suppress(Exception):
        session.sparkContext.setLogLevel("OFF")
    return session


def _refuse_silent_address(master: str) -> None:
    """Raise if nobody answers at an address: Spark would try again for minutes."""
    default = {_CONNECT: _CONNECT_PORT, _STANDALONE: _STANDALONE_PORT}
    scheme = next((one for one in default if master.startswith(one)), None)
    if scheme is None:
        return
    reason = ""
    for address in master.removeprefix(scheme).split(","):
        try:
            parts = urlsplit(f"//{address.split('/')[0]}")
            with socket.create_connection((parts.hostname or "", parts.port or default[scheme]), _SECONDS_TO_ANSWER):
                return
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise UsageError(f"--master {master}: no Spark answers there: {reason}")


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Let no warnings out: they are about versions of pandas, of which nothing is used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _stderr_elsewhere() -> Iterator[Callable[[], str]]:
    """Let standard error, and for ever that of a Java process started meanwhile, go to a file; give how to read it."""
    with tempfile.TemporaryFile() as file:
        ours = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)

            def said() -> str:
                file.seek(0)
                return file.read().decode("utf-8", "replace")

            yield said
        finally:
            os.dup2(ours, 2)
            os.close(ours)


@contextlib.contextmanager
def for_bytes(session: Any) -> Iterator[None]:
    """Let a session hand large rows to Python for a while: its usual batch would be gigabytes of them."""
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = session.conf.get(setting, None)
    session.conf.set(setting, str(ROWS_AT_ONCE))
    try:
        yield
    finally:
        # A session that is lost has nothing to be restored.
        with contextlib.suppress(Exception):
            session.conf.unset(setting) if before is None else session.conf.set(setting, before)


def collected(made: Any, what: str) -> list[Any]:
    """Return the rows of a data frame; Spark's pages show `what` is done. An interrupt stops it on the cluster too."""
    session, tag = made.sparkSession, f"faircount-{os.getpid()}"
    logging.getLogger().addFilter(_not_of_interrupts)
    with contextlib.suppress(Exception):
        session.addTag(tag)
    with contextlib.suppress(Exception):
        session.sparkContext.setJobDescription(f"Faircount: {what}")
    try:
        with without_warnings():
            return list(made.collect())
    except KeyboardInterrupt:
        with contextlib.suppress(Exception), _stderr_elsewhere():
            session.interruptTag(tag)
        raise
    except Exception as error:  # noqa: BLE001 (Spark raises many kinds, all of which mean that it could not do it)
        raise explained(error) from None
    finally:
        logging.getLogger().removeFilter(_not_of_interrupts)
        with contextlib.suppress(Exception):
            session.removeTag(tag)
        with contextlib.suppress(Exception):
            session.sparkContext.setJobDescription(None)


def _not_of_interrupts(record: logging.LogRecord) -> bool:
    """Return whether to log something: the bridge to Java logs every interrupt with a trace."""
    return not str(record.msg).startswith("KeyboardInterrupt")


def explained(error: Exception, said: str = "") -> FaircountError:
    """Return what went wrong with Spark in a sentence, without its trace."""
    text = f"{error}\n{said}"
    if "No module named 'faircount'" in text:
        return UsageError(
            "--engine spark: Faircount is not installed on the executors; install it there, or ship an environment "
            "with spark.archives, and name its Python in PYSPARK_PYTHON"
        )
    if "Can't get attribute" in text or "No module named 'faircount." in text:
        return UsageError("--engine spark: executors have another version of Faircount; install the same one")
    if "Python in worker has different version" in text or "PYTHON_VERSION_MISMATCH" in text:
        return UsageError("--engine spark: executors run another version of Python; name theirs in PYSPARK_PYTHON")
    if "CONNECT_URL_NOT_SET" in text:
        return UsageError(
            "--engine spark: only the client of Spark Connect is installed: name its server with --master sc://host, "
            "or pip install 'faircount[spark]'"
        )
    if not _has_java() and ("JAVA_GATEWAY_EXITED" in text or "JAVA_HOME" in text):
        return UsageError(
            "--engine spark: no Java here; install Java 17, or use Spark Connect: --master sc://host:port"
        )
    return InputError(f"Spark could not do the work: {_reason(text, said)[:300] or type(error).__name__}")


def _reason(text: str, said: str) -> str:
    """Return the line of what Spark and Java wrote that gives the reason: the last of a trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    of_python = [line for line in lines if _PYTHON_ERROR.match(line)]
    of_java = [found[1] for line in lines if (found := _JAVA_ERROR.match(line))]
    of_start = [line for line in said.splitlines() if line.startswith(("Invalid", "Error", "Unrecognized"))][:1]
    return str(([*lines[:1], *of_start, *(of_python or of_java)] or [""])[-1])


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java" if home is None else f"{home}/bin/java") is not None
