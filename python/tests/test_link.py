"""A daemon that is slow, silent or out of its mind costs time and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from node import Node, eventually
from worlds import World

import forebay

Answer = Callable[[socket.socket], None]


def silence(connection: socket.socket) -> None:
    """Takes what comes and says nothing."""
    while connection.recv(4096):
        pass


def nonsense(connection: socket.socket) -> None:
    """Answers each request with bytes that are no frame."""
    while connection.recv(4096):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" * 9)


def hang_up(connection: socket.socket) -> None:
    """Closes the connection."""


@contextmanager
def impostor(node: Node, answer: Answer) -> Iterator[threading.Event]:
    """Listens in place of a daemon; the event says that somebody connected."""
    node.cache.mkdir()
    connected = threading.Event()
    folder = os.open(node.cache, os.O_RDONLY)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"/proc/self/fd/{folder}/daemon.sock")
    listener.listen()

    def talk(connection: socket.socket) -> None:
        with connection:
            try:
                answer(connection)
            except OSError:
                pass  # the other side left first

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connected.set()
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        yield connected
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        server.join()
        listener.close()
        os.close(folder)
        (node.cache / "daemon.sock").unlink()


@pytest.mark.parametrize("answer", [nonsense, hang_up])
def test_nonsense_from_a_daemon_reads_the_origin(node: Node, world: World, answer: Answer) -> None:
    with impostor(node, answer):
        with pytest.warns(RuntimeWarning, match="without a cache"):
            dataset = node.open(world.index)
        world.read_by(dataset)
        with pytest.raises(forebay.UnavailableError):
            node.status()


def test_a_silent_daemon_ends_at_the_deadline(node: Node, world: World) -> None:
    with impostor(node, silence):
        with pytest.warns(RuntimeWarning, match="without a cache"):
            dataset = node.open(world.index, deadline_s=0.3)
        world.read_by(dataset)
        with pytest.raises(forebay.UnavailableError):
            forebay.status(node.cache, deadline_s=0.3)


def test_a_stopped_daemon_costs_seconds_and_no_byte(node: Node, world: World) -> None:
    dataset = node.open(world.index, deadline_s=3000)
    (pid,) = node.daemons()
    daemon = psutil.Process(pid)
    daemon.suspend()
    # A thread of it that is woken before may still answer.
    eventually("it stands still", lambda: daemon.status() == psutil.STATUS_STOPPED)
    try:
        world.read_by(dataset)
        # Nor does opening wait for it.
        with pytest.warns(RuntimeWarning, match="does not answer"):
            world.read_by(node.open(world.index, deadline_s=3000))
    finally:
        daemon.resume()
    assert node.status()["asked_bytes"] == 0


def interrupt_once(connected: threading.Event) -> threading.Thread:
    main = threading.get_ident()

    def send() -> None:
        connected.wait()
        time.sleep(0.2)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("what", ["open", "status", "stop"])
def test_ctrl_c_ends_every_wait_for_a_daemon(node: Node, world: World, what: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: node.open(world.index, deadline_s=3000),
        "status": lambda: forebay.status(node.cache, deadline_s=3000),
        "stop": lambda: forebay.stop(node.cache, deadline_s=3000),
    }
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with impostor(node, silence) as connected:
            sender = interrupt_once(connected)
            with pytest.raises(KeyboardInterrupt):
                calls[what]()
            sender.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_do_not_lengthen_a_wait(node: Node) -> None:
    handled = []
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append(True))
    try:
        with impostor(node, silence):
            # More often than the deadline: each of them wakes the wait up.
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
            with pytest.raises(forebay.UnavailableError):
                forebay.status(node.cache, deadline_s=1.0)
            assert len(handled) >= 3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_socket_that_nobody_listens_on_is_replaced(node: Node, world: World) -> None:
    with impostor(node, silence):
        pass
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(node.cache, os.O_RDONLY)
    left.bind(f"/proc/self/fd/{folder}/daemon.sock")
    os.close(folder)
    left.close()
    world.read_by(node.open(world.index))
    assert len(node.daemons()) == 1


def test_a_cache_folder_that_cannot_be_made_warns_and_reads(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="without a cache"):
        dataset = forebay.open(world.index, cache=tmp_path / "file" / "cache")
    world.read_by(dataset)
