"""A Slurm of a few nodes on this machine, for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "scontrol")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{end}] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=n[0-{last}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""


def is_here() -> bool:
    """Whether this user can start a Slurm here."""
    return os.geteuid() == 0 and all(shutil.which(name) for name in NEEDED)


def free_ports(count: int) -> list[int]:
    """That many in a row, free just now."""
    for first in range(21_000, 31_000, count):
        ports = list(range(first, first + count))
        try:
            for port in ports:
                with socket.create_server(("127.0.0.1", port)):
                    pass
        except OSError:
            continue
        return ports
    raise AssertionError("no free ports")


@dataclass
class Slurm:
    """A running one."""

    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]]

    def run(self, *words: object, timeout: float = 180) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*map(str, words)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def wait_until_idle(self) -> None:
        """Returns when no job is on its way out: Slurm does not end before it, and takes long."""
        deadline = time.monotonic() + 20
        while self.run("squeue", "-h").stdout.strip() and time.monotonic() < deadline:
            time.sleep(0.1)

    def is_ready(self, nodes: int) -> bool:
        return self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").stdout.count("n") >= nodes


def end_steps(configuration: Path) -> None:
    """Ends what Slurm leaves behind of a step: it is nobody's child and outlives the daemons."""
    for process in psutil.process_iter(["name"]):
        try:
            if (process.info["name"] or "").startswith("slurmstepd") and process.environ().get(
                "SLURM_CONF"
            ) == str(configuration):
                process.kill()
        except psutil.Error:
            # It has ended meanwhile.
            continue


@contextmanager
def started(folder: Path, nodes: int) -> Iterator[Slurm]:
    """One with nodes of the names n0, n1 and so on."""
    for name in ("state", *(f"spool-n{node}" for node in range(nodes))):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    ports = free_ports(nodes + 1)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder,
            host=socket.gethostname(),
            ports=ports,
            first=ports[1],
            end=ports[-1],
            last=nodes - 1,
        )
    )
    places = {"key-file": key, "socket": folder / "munge.socket"}
    places |= {f"{name}-file": folder / f"munge.{name}" for name in ("pid", "log", "seed")}
    lines = [
        ["munged", "--foreground", "--force", "--num-threads=2"],
        ["slurmctld", "-D", "-c", "-f", str(configuration)],
        *(["slurmd", "-D", "-N", f"n{node}", "-f", str(configuration)] for node in range(nodes)),
    ]
    lines[0] += [f"--{name}={place}" for name, place in places.items()]
    slurm = Slurm({**os.environ, "SLURM_CONF": str(configuration)}, [])
    try:
        for line in lines:
            with (folder / f"{line[0]}-{len(slurm.processes)}.out").open("wb") as log:
                slurm.processes.append(
                    subprocess.Popen(line, env=slurm.environment, stdout=log, stderr=log)
                )
            time.sleep(0.3)
        deadline = time.monotonic() + 60
        while not slurm.is_ready(nodes):
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()
            time.sleep(0.2)
        yield slurm
        slurm.wait_until_idle()
    finally:
        end_steps(configuration)
        for process in reversed(slurm.processes):
            process.terminate()
        for process in slurm.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
