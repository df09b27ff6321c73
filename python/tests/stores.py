"""Stores of objects on loopback: an S3 server, and a web server that knows ranges."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import ipaddress
import logging
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass
class S3:
    """A bucket of moto's S3 server."""

    endpoint: str
    client: Any
    bucket: str = "bucket"

    def put(self, key: str, body: bytes, *, public: bool = False) -> None:
        acl = {"ACL": "public-read"} if public else {}
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body, **acl)

    def put_folder(self, folder: Path, prefix: str) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())


@contextlib.contextmanager
def s3_server() -> Iterator[S3]:
    """Starts moto's server; skips the test where moto is not installed."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed: no S3 server to ask")
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: nothing fills the bucket")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        client.create_bucket(Bucket=S3.bucket)
        yield S3(endpoint, client)
    finally:
        server.stop()


@dataclass
class Web:
    """The files of a folder, by HTTP: with ranges and entity tags, as real servers have them."""

    root: Path
    url: str = ""
    ranges: bool = True
    tags: bool = True
    requests: list[str] = field(default_factory=list)
    sent: int = 0


@dataclass
class Authority:
    """One that signs certificates, and a certificate of 127.0.0.1 that it has signed."""

    certificate: Path
    server: ssl.SSLContext

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """Skips the test where certificates cannot be made."""
        x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        def signed(name: str, own: Any, by: str, key: Any, *parts: Any) -> bytes:
            def named(text: str) -> Any:
                return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

            now = datetime.datetime.now(datetime.UTC)
            day = datetime.timedelta(days=1)
            made = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(by))
            made = made.public_key(own.public_key()).serial_number(x509.random_serial_number())
            made = made.not_valid_before(now - day).not_valid_after(now + day)
            for part in parts:
                made = made.add_extension(part, critical=True)
            pem: bytes = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            return pem

        keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
        authority = folder / "authority.pem"
        is_authority = x509.BasicConstraints(ca=True, path_length=None)
        authority.write_bytes(signed("authority", keys[0], "authority", keys[0], is_authority))
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        key = keys[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        server = folder / "server.pem"
        server.write_bytes(signed("server", keys[1], "authority", keys[0], here) + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server)
        return cls(authority, context)


def _encrypted(server: ThreadingHTTPServer, tls: ssl.SSLContext | None) -> str:
    """Puts a server behind TLS, if there is any; the scheme of its URLs."""
    if tls is None:
        return "http"
    # The handshake is the connection's own thread's: one that fails holds nobody up.
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return "https"


@contextlib.contextmanager
def web_server(
    root: Path, *, ranges: bool = True, tags: bool = True, tls: ssl.SSLContext | None = None
) -> Iterator[Web]:
    web = Web(root, ranges=ranges, tags=tags)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            web.requests.append(f"{self.command} {self.path}")
            path = web.root / self.path.lstrip("/")
            if not path.is_file():
                self.send_response(404)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            body = path.read_bytes()
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
            part = body
            if wanted and web.ranges and int(wanted[1]) >= len(body):
                part = b""
                self.send_response(416)
            elif wanted and web.ranges:
                first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
                part = body[first : last + 1]
                self.send_response(206)
                self.send_header("content-range", f"bytes {first}-{last}/{len(body)}")
            else:
                self.send_response(200)
            if web.tags:
                self.send_header("etag", f'"{hashlib.md5(body).hexdigest()}"')
            stamp = self.date_time_string(int(path.stat().st_mtime))
            self.send_header("last-modified", stamp)
            self.send_header("content-length", str(len(part)))
            self.end_headers()
            if self.command == "GET":
                web.sent += len(part)
                self.wfile.write(part)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.url = f"{_encrypted(server, tls)}://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
