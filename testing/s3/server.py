"""Starts and stops the S3 server, with a certificate issued by a private authority."""

import os
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trustme
from cluster.go_program import build_program
from cluster.waiting import until
from ports import free_port

BUCKET: Final = "records"
REGION: Final = "eu-test-1"
_PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw"


@dataclass
class S3Server:
    """A server with one bucket. Its data survive a stop."""

    folder: Path
    key: str = "user"
    secret: str = "a secret of this test"
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        for name in ("data", "metadata"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "data" / BUCKET).mkdir()
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        authority.cert_pem.write_to_path(str(self.authority))
        issued.private_key_pem.write_to_path(str(self.folder / "key.pem"))
        issued.cert_chain_pems[0].write_to_path(str(self.folder / "cert.pem"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def authority(self) -> Path:
        """The PEM file of the authority that a client must trust."""
        return self.folder / "authority.pem"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def variables(self) -> dict[str, str]:
        """Return the environment variables that a client needs."""
        return {
            "AWS_ENDPOINT_URL": f"https://127.0.0.1:{self.port}",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    def objects(self) -> list[str]:
        """Return the paths of all objects in the bucket."""
        root = self.folder / "data" / BUCKET
        return sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())

    def start(self) -> None:
        program = build_program(Path(__file__).parent, "versitygw", package=_PACKAGE)
        argv = [str(program), "--quiet", f"--port=127.0.0.1:{self.port}", f"--region={REGION}"]
        argv += [f"--cert={self.folder / 'cert.pem'}", f"--key={self.folder / 'key.pem'}"]
        argv += ["posix", f"--sidecar={self.folder / 'metadata'}", str(self.folder / "data")]
        env = {**os.environ, "ROOT_ACCESS_KEY": self.key, "ROOT_SECRET_KEY": self.secret}
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(argv, env=env, stdout=out, stderr=out)
        until("the S3 server listens", self._missing, 20, self.log.read_text)

    def _missing(self) -> str:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError as error:
            return str(error)
        return ""

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
