"""How many packets a second a port carries, beside DPDK's own ways through shared memory.

    tests/ports.sh rates [ROUNDS]

One testpmd sends, another one receives, each on a processor of its own. A round has each way
once, in turn; what is printed are medians of the rounds, their spread, and the ratios in one
round. Of each run the
best second counts, by the receiver's own figures.
"""

import os
import re
import statistics
import sys
import tempfile
import time

from memory import Owner, Port
from switch import Testpmd

DRIVER = os.environ["VFUN_DPDK_DRIVER"]


class Way:
    """Two ends: the arguments of --vdev of the receiver and of the sender."""

    def __init__(self, name, ends):
        self.name, self.ends = name, ends


def ways(folder):
    Owner(f"{folder}/ports.sock", [Port("a")])
    at = f"socket={folder}/ports.sock,port=a"
    return [
        Way("net_vfun", (f"net_vfun0,{at}/host", f"net_vfun0,{at}/guest")),
        Way("net_memif", (f"net_memif0,role=server,socket={folder}/memif.sock,socket-abstract=no",
                          f"net_memif0,role=client,socket={folder}/memif.sock,socket-abstract=no")),
        Way("net_vhost", (f"net_vhost0,iface={folder}/vhost.sock",
                          f"net_virtio_user0,path={folder}/vhost.sock")),
    ]


def start(way, end, mode, processor, size, tag):
    return Testpmd(DRIVER, f"rates-{tag}-{end}", way.ends[end], mode,
                   [f"--txpkts={size}"], processor=processor)


def rate(way, size, tag):
    """Million frames a second."""
    receiver = start(way, 0, "rxonly", 0, size, tag)
    time.sleep(1.5)
    sender = start(way, 1, "txonly", 1, size, tag)
    time.sleep(5.5)
    sender.stop()
    said = receiver.stop()
    rates = [int(n) for n in re.findall(r"Rx-pps:\s+(\d+)", said)]
    # The first seconds have the start of the other program in them.
    busy = [n for n in rates if n > 0][1:-1]
    if not busy:
        raise SystemExit(f"{way.name}: nothing came:\n{said}")
    return max(busy) / 1e6


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory(prefix="vfun-rates-") as folder:
        all_ways = ways(folder)
        for size in (64, 1500):
            found = {way.name: [] for way in all_ways}
            for number in range(rounds):
                for way in all_ways:
                    tag = f"{os.getpid()}-{size}-{number}-{way.name}"
                    found[way.name].append(rate(way, size, tag))
            for name, rates in found.items():
                ratios = [ours / other for ours, other in zip(found["net_vfun"], rates)]
                print(f"{size:5} bytes  {name:10} {statistics.median(rates):6.2f} Mpps "
                      f"({min(rates):.2f} to {max(rates):.2f})   net_vfun / it: "
                      f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                      flush=True)


main()
