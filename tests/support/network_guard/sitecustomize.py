"""Put on PYTHONPATH by a test: every Python process notes, and refuses, what would use the network."""

import os
import socket
import sys

_LOG = os.environ["LENGTHWISE_TEST_NETWORK_LOG"]


def _watch(event: str, arguments: tuple) -> None:
    inet = event == "socket.connect" and arguments[0].family in (socket.AF_INET, socket.AF_INET6)
    if inet or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        with open(_LOG, "a") as log:
            log.write(f"{event} {arguments[1:]!r} in {sys.argv}\n")
        raise PermissionError(f"the network is off limits in this test: {event}")


sys.addaudithook(_watch)
with open(_LOG, "a") as log:
    log.write("watching\n")
