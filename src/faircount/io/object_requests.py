"""Requests to object stores: what an address means, with which credentials it is asked for, and what errors mean.

Credentials are those of the environment: they are in no address, and what the library says of an error, in which they
might be, is never shown. The library is imported with the first request. A request runs in a thread of its own, so that
an interrupt need not wait for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.workers import Beside

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ObjectStore

_SIGNED = re.compile(r"[?&](?:X-Amz-|X-Goog-|sig=|AWSAccessKeyId=|GoogleAccessId=)", re.IGNORECASE)
_ROOT = re.compile(
    r"(?:(s3|gs)://[A-Za-z0-9][A-Za-z0-9._-]{1,221}|abfss://[A-Za-z0-9$][A-Za-z0-9-]{1,62}@[A-Za-z0-9][A-Za-z0-9.-]+)"
)
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})\b")
_DENIED = ("401", "403", "AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch")
_OF_THE_MACHINE = ("http://169.254.", "http://metadata.google", "/latest/api/token ", "/computeMetadata/")
"""Where machines in a cloud find their credentials: it is asked last, when there are no others."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_NO_TAG = "modified "

Answered = TypeVar("Answered")

_stores: dict[str, ObjectStore] = {}
_process: list[int] = []


class FileVersion(Struct, frozen=True):
    """What a file was when it was looked at: its size, and what another file or a rewritten one would not share."""

    size: int
    tag: str
    """The e_tag of an object, or the inode of a local file; the device has another number on every machine."""
    modified: int = 0


class ReplacedError(InputError):
    """A file is no longer the one that was looked at."""


class AbsentError(InputError):
    """There is no such object."""


# -- addresses --------------------------------------------------------------------------------------------------


def canonical(address: str) -> str:
    """Return an address as it is spelled here; raise if it is none, or holds credentials."""
    scheme, _, rest = address.partition("://")
    authority, slash, key = rest.partition("/")
    root = f"{scheme.replace('s3a', 's3')}://{authority}"
    if _SIGNED.search(address) or (scheme != "abfss" and "@" in authority) or (":" in authority):
        raise UsageError(
            f"{scheme}://…: credentials do not belong in an address; set them in the environment "
            f"({_credentials_of(scheme)})"
        )
    if not _ROOT.fullmatch(root):
        form = "abfss://container@account.dfs.core.windows.net/key" if scheme == "abfss" else f"{scheme}://bucket/key"
        raise UsageError(f"{address}: is not an address; write {form}")
    return f"{root}{slash}{key}"


def bucket_and_key(address: str) -> tuple[str, str]:
    """Return the bucket of an address, as an address itself, and the key in it."""
    scheme, _, rest = canonical(address).partition("://")
    authority, _, key = rest.partition("/")
    return f"{scheme}://{authority}", key


def _credentials_of(scheme: str) -> str:
    if scheme == "gs":
        return "GOOGLE_APPLICATION_CREDENTIALS"
    if scheme == "abfss":
        return "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET"
    return "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


# -- requests ---------------------------------------------------------------------------------------------------

Listed = list[tuple[str, FileVersion]]
"""Keys of objects, and their versions."""


def get_range(
    address: str, start: int, end: int, version: FileVersion | None = None, *, interruptible: bool = True
) -> tuple[bytes, FileVersion]:
    """Return a range of an object, and which version it is of."""
    root, key = bucket_and_key(address)
    store = _store(root, address)
    options: GetOptions = {"range": (start, end)}
    # Without a condition, what comes is compared.
    if version is not None and not version.tag.startswith((_NO_TAG, "W/")):
        options["if_match"] = f'"{version.tag}"'

    def got() -> tuple[bytes, FileVersion]:
        try:
            answer = store.get(key, options=options)
        except Exception as error:
            # An empty object has no range.
            if start or "status code: 416" not in str(error):
                raise
            answer = store.get(key)
        return answer.bytes().to_bytes(), _version(answer.meta)

    return _answer(got, address, interruptible=interruptible)


def get_version(address: str) -> FileVersion:
    """Return which version of an object is there."""
    root, key = bucket_and_key(address)
    store = _store(root, address)
    return _answer(lambda: _version(store.head(key)), address)


def list_folder(folder: str, named: str) -> tuple[Listed, list[str]]:
    """Return the objects in a folder, and the keys of the folders in it; `named` is what errors are about."""
    root, key = bucket_and_key(folder)
    store = _store(root, named)
    found = _answer(lambda: store.list_with_delimiter(key or None), named)
    return [(meta["path"], _version(meta)) for meta in found["objects"]], list(found["common_prefixes"])


def list_all(folder: str, named: str) -> Listed:
    """Return the objects in a folder and below."""
    root, key = bucket_and_key(folder)
    store = _store(root, named)

    def listed() -> Listed:
        return [(meta["path"], _version(meta)) for batch in store.list(key or None) for meta in batch]

    return _answer(listed, named)


def _version(meta: Any) -> FileVersion:
    """Return the version that a store describes; some write e_tags with quotes in answers and without in listings."""
    return FileVersion(meta["size"], (meta["e_tag"] or "").strip('"') or f"{_NO_TAG}{meta['last_modified']}")


def _answer(ask: Callable[[], Answered], address: str, *, interruptible: bool = True) -> Answered:
    """Return what a store answers, in a thread of its own so that an interrupt need not wait; errors become ours."""
    try:
        return Beside(ask, daemon=True).answer() if interruptible else ask()
    except FaircountError:
        raise
    except Exception as error:  # noqa: BLE001  the library raises many, and their texts may hold credentials
        raise _understood(error, address) from None


def _store(root: str, address: str) -> ObjectStore:
    """Return the store of a bucket."""
    _process[:] = _process or [os.getpid()]
    if _process != [os.getpid()]:
        raise UsageError(f"{address}: a forked process cannot read object stores; start it with spawn")
    if root in _stores:
        return _stores[root]
    try:
        from obstore import store
    except ImportError as error:
        raise UsageError(f"{address}: reading object stores needs the extra: pip install 'faircount[cloud]'") from error
    endpoints = {name: os.environ[name] for name in _ENDPOINTS if os.environ.get(name)}
    for name, value in endpoints.items():
        if not value.startswith(("http://", "https://")):
            raise UsageError(f"{address}: {name} is not the address of a server; it begins with https:// or http://")
    plain = any(value.startswith("http://") for value in endpoints.values())
    make: Any = store.from_url  # it has an overload for each kind of store
    try:
        _stores[root] = make(
            root,
            client_options={"allow_http": plain, "timeout": "5min", "connect_timeout": "5s", "read_timeout": "30s"},
            retry_config={"max_retries": 5},
            credential_provider=_profile(address) if root.startswith("s3://") else None,
        )
    except FaircountError:
        raise
    except Exception:  # noqa: BLE001  as above
        known = _credentials_of(root.partition("://")[0])
        raise UsageError(f"{address}: the settings in the environment cannot be used; set {known}") from None
    return _stores[root]


def _profile(address: str) -> Any:
    """Return credentials of the user's AWS profile, where the environment has none; the library does not know them."""
    known = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE")
    if any(os.environ.get(name) for name in known):
        return None
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
    if not os.environ.get("AWS_PROFILE") and not file.exists():
        return None
    if util.find_spec("boto3") is None:
        raise UsageError(f"{address}: the credentials of an AWS profile need boto3: pip install boto3")
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except Exception as error:  # noqa: BLE001  as below
        raise UsageError(f"{address}: the AWS profile cannot be used ({type(error).__name__})") from None


def _understood(error: Exception, address: str) -> FaircountError:
    """Return an error of ours for one of the library's, with nothing of its text but a code."""
    import obstore.exceptions as known

    text, scheme = str(error), canonical(address).partition("://")[0]
    bucket = bucket_and_key(address)[0]
    code = next(iter(_CODE.findall(text) or _STATUS.findall(text)), "")
    if code in ("NoSuchBucket", "ContainerNotFound") or "bucket does not exist" in text:
        return InputError(f"{address}: there is no {bucket}")
    if isinstance(error, FileNotFoundError):
        return AbsentError(f"{address}: no such file")
    if isinstance(error, known.PreconditionError):
        return ReplacedError(f"{address}: replaced while it was being read; run the command again")
    if isinstance(error, known.InvalidPathError | ValueError):
        return InputError(f"{address}: keys with an empty part (//) or one of dots cannot be read")
    if any(place in text for place in _OF_THE_MACHINE):
        public = ", or AWS_SKIP_SIGNATURE=true for a public bucket" if scheme == "s3" else ""
        return UsageError(f"{address}: no credentials found; set {_credentials_of(scheme)}{public}")
    if isinstance(error, known.PermissionDeniedError | known.UnauthenticatedError) or code in _DENIED:
        said = f" ({code})" if code else ""
        return InputError(f"{address}: the store denies access{said}; check the credentials and what they may read")
    if "redirect" in text or code in ("301", "PermanentRedirect", "AuthorizationHeaderMalformed"):
        return UsageError(f"{address}: the bucket is in another region; set AWS_REGION")
    if code:
        return InputError(f"{address}: the store cannot answer ({code}); try again later")
    return InputError(f"{address}: the store cannot be reached; check the network and the endpoint")
