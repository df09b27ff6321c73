"""The miniature fabric: its namespaces, its server, and what it says where it cannot be made."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from demo.fabric import net
from demo.fabric import run as study
from demo.fabric.conditions import COLD, CONDITIONS, SHARED, WARM, judge
from demo.fabric.origin import Server, Tail

# Sends some bytes to the storage host over TCP, in a traffic class.
SEND = """
import socket, sys
made = socket.socket()
made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[1]) << 2)
made.connect(("198.18.0.100", 7000))
made.sendall(b"x" * 200_000)
made.shutdown(socket.SHUT_WR)
made.recv(1)
"""
RECEIVE = """
import socket
made = socket.create_server(("198.18.0.100", 7000))
print("listening", flush=True)
while True:
    peer, _ = made.accept()
    while peer.recv(65536):
        pass
    peer.close()
"""


def names() -> set[str]:
    return {path.name for path in Path("/run/netns").glob(f"fbf{os.getpid()}-*")}


def sent(fabric: net.Fabric, device_class: str) -> int:
    """Bytes that a class of host 0's link has sent."""
    line = fabric.on_host(0, ["tc", "-s", "class", "show", "dev", "eth1"])
    shown = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    found = re.search(rf"class htb {device_class} .*?Sent (\d+) bytes", shown, re.DOTALL)
    assert found is not None, shown
    return int(found[1])


def test_the_fabric_parts_classes_and_leaves_nothing() -> None:
    reason = net.why_not()
    if reason is not None:
        pytest.skip(reason)
    try:
        fabric = net.Fabric(hosts=2, rate_mbit=200, queue_bytes=500_000)
        fabric.__enter__()
    except net.NoFabric as error:
        pytest.skip(str(error))
    try:
        assert len(names()) == 4
        fabric.shape("90/10")
        receiver = subprocess.Popen(
            fabric.on_storage([sys.executable, "-c", RECEIVE]), stdout=subprocess.PIPE
        )
        try:
            assert receiver.stdout is not None and receiver.stdout.readline()
            for dscp, own, other in ((0, "1:10", "1:20"), (net.STORAGE_DSCP, "1:20", "1:10")):
                before = sent(fabric, own), sent(fabric, other)
                line = fabric.on_host(0, [sys.executable, "-c", SEND, str(dscp)])
                subprocess.run(line, check=True, timeout=60)
                assert sent(fabric, own) - before[0] > 200_000
                assert sent(fabric, other) - before[1] < 50_000
        finally:
            receiver.kill()
            receiver.communicate()
        # A failure inside, as Ctrl-C is one, leaves nothing either.
        other = net.Fabric(hosts=1, rate_mbit=100, queue_bytes=100_000)
        with pytest.raises(ValueError, match="now"), other:
            assert len(names()) == 7
            raise ValueError("now")
        assert len(names()) == 4
    finally:
        fabric.__exit__(None, None, None)
    assert names() == set()


def test_what_a_killed_run_left_is_removed_and_others_are_not() -> None:
    reason = net.why_not()
    if reason is not None:
        pytest.skip(reason)
    # Above the greatest process number.
    left, living = "fbf4999999-0-h0", f"fbf{os.getpid()}-9-h9"
    for name in (left, living):
        if subprocess.run(["ip", "netns", "add", name], check=False).returncode:
            pytest.skip("no network namespace can be made here")
    try:
        net.remove_left()
        assert not Path(f"/run/netns/{left}").exists() and Path(f"/run/netns/{living}").exists()
    finally:
        subprocess.run(["ip", "netns", "delete", living], check=True)


def test_without_root_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ran: list[list[str]] = []
    monkeypatch.setattr(study, "run", lambda line, _: ran.append(list(line)))
    monkeypatch.setattr(study, "report", lambda _: {})
    assert study.main(["--out", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "need root" in said and "loopback" in said
    (line,) = ran
    assert "allreduce" in line and "shm=shm" in line
    with pytest.raises(net.NoFabric), net.Fabric(1, 100, 100_000):
        pass


def test_the_server_sends_the_parts_that_are_asked_for(tmp_path: Path) -> None:
    content = os.urandom(200_000)
    (tmp_path / "a.npz").write_bytes(content)
    server = Server(("127.0.0.1", 0), tmp_path, Tail(0, 0.1, 1, 7))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    try:
        for asked, status, found in (
            ("bytes=10-99", 206, content[10:100]),
            ("bytes=199990-300000", 206, content[199_990:]),
            (None, 200, content),
        ):
            connection.request("GET", "/a.npz", headers={"Range": asked} if asked else {})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, found)
            assert answer.headers["ETag"]
        for path in ("/../a.npz", "/b.npz", "/.hidden"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 404
            connection.close()
    finally:
        connection.close()
        server.shutdown()
        server.server_close()


def test_the_tail_is_seeded_and_within_its_bounds() -> None:
    def drawn(seed: int) -> list[float]:
        tail = Tail(0.3, 0.5, 4.0, seed)
        return [tail.next_s() for _ in range(2000)]

    late = [each for each in drawn(7) if each]
    assert drawn(7) == drawn(7) != drawn(8)
    assert 500 < len(late) < 700 and all(0.499 < each < 4.001 for each in late)
    assert max(late) > 3 > 1 > min(late)


def row(tier: str, median: float | None, longest: float, over: float) -> dict[str, object]:
    return {
        "tier": tier,
        "median": {"ratio": median, "loaded_n": 100},
        "max": {"ratio": longest},
        "waits": {"over_window_share": over},
        "baseline_drift": 1.01,
        "baseline_max_drift": None,
    }


def test_targets_are_met_or_said_not_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert {SHARED, COLD, WARM} <= {tier for each in CONDITIONS for tier in each.tiers}
    good = [row(SHARED, 12, 30, 0.1), row(COLD, 1.05, 1.3, 0.0), row(WARM, 1.0, 1.0, 0.0)]
    assert judge({"allreduce": good})
    for bad in (row(SHARED, 9, 30, 0), row(COLD, 1.05, 1.3, 0.01), row(WARM, None, 1, 0)):
        others = [each for each in good if each["tier"] != bad["tier"]]
        assert not judge({"allreduce": [*others, bad]})
    assert "NOT as expected" in capsys.readouterr().out
