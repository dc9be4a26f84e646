"""Two VMs and the manager of a direct link, for tests of the driver.

The VMs are vms.c, and so vfun_link_ring.h; the manager's part is a few words.
"""

import ctypes
import itertools
import mmap
import os
import struct
import subprocess
import threading

from memory import (ALLOW, ALLOWED, FORCE, FORCED, LINK, PAGE, RING, SIDE, UNLINK, UNLINKED)
from switch import until

# Words of a header page (docs/protocol.md, section 18).
OUT, ACK, IN, OPEN = 33, 34, 40, 41
LINK_OUT, TURN, LINK_IN, FENCED_LINK, FENCED = 48, 49, 50, 56, 57
WINDOW = 256


def library(folder):
    """vms.c, built."""
    here = os.path.dirname(os.path.abspath(__file__))
    to = f"{folder}/vms.so"
    subprocess.run(["gcc", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror",
                    f"-I{here}/../../../protocol/packet/include", "-o", to, f"{here}/vms.c"], check=True)
    vms = ctypes.CDLL(to)
    number, pointer = ctypes.c_uint64, ctypes.c_void_p
    for name, result, arguments in (
        ("sender_new", pointer, [pointer, pointer, number, ctypes.c_int, pointer, number]),
        ("sender_renew", None, [pointer, pointer, pointer, number]),
        ("sender_attach", ctypes.c_int, [pointer, number, pointer, pointer, number]),
        ("sender_detach", None, [pointer]), ("sender_run", None, [pointer]),
        ("sender_hold", None, [pointer, ctypes.c_int]), ("sender_stop", None, [pointer, ctypes.c_int]),
        ("sender_nap", None, [pointer, ctypes.c_uint]), ("sender_flows", None, [pointer, ctypes.c_uint]), ("sender_sent", number, [pointer]),
        ("receiver_new", pointer, [pointer, pointer, number]),
        ("receiver_renew", None, [pointer, pointer, pointer, number]),
        ("receiver_attach", ctypes.c_int, [pointer, number, pointer, pointer, number]),
        ("receiver_detach", None, [pointer]), ("receiver_came", pointer, [pointer, ctypes.c_int]),
        ("receiver_run", None, [pointer]), ("receiver_hold", None, [pointer, ctypes.c_int]),
        ("receiver_stop", None, [pointer]), ("receiver_count", number, [pointer, ctypes.c_int, ctypes.c_int]),
    ):
        function = getattr(vms, name)
        function.restype, function.argtypes = result, arguments
    return vms


# Threads of C may look there as long as this process is.
KEPT = []


def address(memory, at=0):
    KEPT.append(ctypes.c_char.from_buffer(memory, at))
    return ctypes.addressof(KEPT[-1])


def sides(port):
    """Of the VM: its own, and the host's."""
    return address(port.memory, SIDE), address(port.memory, 0), RING


class Thread:
    """A function of vms.c that runs until it is told to stop."""

    def __init__(self, run, of):
        self.thread = threading.Thread(target=run, args=(of,), daemon=True)
        self.thread.start()

    def join(self):
        self.thread.join()


class Process:
    """The same in a process of its own, which finds all memory that is there now."""

    def __init__(self, run, of):
        self.pid = os.fork()
        if self.pid == 0:
            run(of)
            os._exit(0)

    def join(self):
        _, status = os.waitpid(self.pid, 0)
        if status:
            raise AssertionError(f"an end has died: {status}")


class Receiver:
    def __init__(self, vms, port):
        self.vms, self.port = vms, port
        port.set_word(1, 16, 1)
        self.it = vms.receiver_new(*sides(port))
        self.thread = None

    def start(self, kind=Thread):
        self.thread = kind(self.vms.receiver_run, self.it)
        return self

    def renew(self, port):
        port.set_word(1, 16, 1)
        self.vms.receiver_renew(self.it, *sides(port))
        self.port = port

    def hold(self, is_held):
        self.vms.receiver_hold(self.it, is_held)

    def count(self, which, source=0):
        names = ["missing", "early", "strange", "by_port", "by_link"]
        return self.vms.receiver_count(self.it, names.index(which), source)

    def came(self, source=0):
        return ctypes.c_uint64.from_address(self.vms.receiver_came(self.it, source)).value

    def stop(self):
        if self.thread:
            self.vms.receiver_stop(self.it)
            self.thread.join()
            self.thread = None


class Sender:
    def __init__(self, vms, port, receiver, source=0, window=WINDOW, flows=1):
        self.vms, self.port, self.receiver, self.source = vms, port, receiver, source
        port.set_word(1, 16, 1)
        self.it = vms.sender_new(*sides(port), source, vms.receiver_came(receiver.it, source), window)
        self.flows = flows
        vms.sender_flows(self.it, flows)
        self.thread = None

    def start(self, kind=Thread):
        self.vms.sender_stop(self.it, 0)
        self.thread = kind(self.vms.sender_run, self.it)
        return self

    def renew(self, port):
        port.set_word(1, 16, 1)
        self.vms.sender_renew(self.it, *sides(port))
        self.port = port

    def hold(self, is_held):
        self.vms.sender_hold(self.it, is_held)

    def nap(self, microseconds):
        self.vms.sender_nap(self.it, microseconds)

    def sent(self, flow=0):
        """The last number of a flow."""
        return (self.vms.sender_sent(self.it) + self.flows - 1 - flow) // self.flows

    def stop(self):
        """As a VM that is stopped: it does not even turn."""
        if self.thread:
            self.vms.sender_stop(self.it, 1)
            self.thread.join()
            self.thread = None


class Direct:
    """One link, its memory and the manager's part of it."""

    numbers = itertools.count(0x5000_0001)

    def __init__(self, owner, vms, sender, receiver, name="b/host", end="a/host"):
        self.owner, self.vms, self.sender, self.receiver = owner, vms, sender, receiver
        self.number, self.epoch, self.name, self.end = next(self.numbers), 0, name, end
        self.pause = 0.05
        self.fd = os.memfd_create("link", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, PAGE + 2 * SIDE)
        self.memory = mmap.mmap(self.fd, PAGE + 2 * SIDE)
        # A's side is the first one.
        self.places = PAGE, PAGE + SIDE

    def word(self, of_receiver, index):
        return struct.unpack_from("<Q", self.memory, self.places[of_receiver] + 8 * index)[0]

    def set_word(self, of_receiver, index, value):
        struct.pack_into("<Q", self.memory, self.places[of_receiver] + 8 * index, value)

    def driver(self):
        return self.owner.driver(self.end)

    def tell(self, driver=None, **more):
        """LINK."""
        driver = driver or self.driver()
        told = {"handle": self.number, "mine": self.places[0], "theirs": self.places[1], "ring": RING,
                "epoch": self.epoch, "sentence": self.name.encode(), "fds": [self.fd], **more}
        driver.say(LINK, **told)

    def plug(self):
        """Both VMs have its memory."""
        self.sender.port.set_word(0, TURN, 0)
        self.sender.port.set_word(0, LINK_OUT, self.number)
        self.receiver.port.set_word(0, LINK_IN, self.number)
        mine, theirs = (address(self.memory, place) for place in self.places)
        until("the sender takes the link", lambda: self.vms.sender_attach(self.sender.it, self.number, mine, theirs, RING) == 0)
        self.vms.receiver_attach(self.receiver.it, self.number, theirs, mine, RING)

    def begin(self):
        self.tell()
        self.plug()
        return self

    def allow(self):
        self.epoch += 1
        self.driver().say(ALLOW, handle=self.number, epoch=self.epoch)
        self.driver().says(ALLOWED, self.number, self.epoch)

    def turn(self, is_back):
        self.sender.port.set_word(0, TURN, 2 * self.epoch + is_back)

    def is_acked(self, is_back):
        return self.sender.port.word(1, ACK) == 2 * self.epoch + is_back

    def is_open(self, is_back):
        return self.receiver.port.word(1, OPEN) == 2 * self.epoch + is_back

    def both(self, is_back):
        """Makes a turn, and waits until both VMs have made it."""
        self.turn(is_back)
        self.until_both(is_back)

    def until_both(self, is_back):
        until(f"both turn {'back' if is_back else 'to the link'} (epoch {self.epoch})",
              lambda: self.is_acked(is_back) and self.is_open(is_back), pause=self.pause)

    def out(self):
        self.allow()
        self.both(0)

    def back(self):
        self.both(1)

    def force(self):
        self.driver().say(FORCE, handle=self.number, epoch=self.epoch)
        self.driver().says(FORCED, self.number, self.epoch)

    def unlink(self):
        self.driver().say(UNLINK, handle=self.number)
        self.driver().says(UNLINKED, self.number)

    def is_over(self):
        """The manager says so to both VMs, which forget it."""
        self.sender.port.set_word(0, LINK_OUT, 0)
        self.sender.port.set_word(0, TURN, 0)
        self.receiver.port.set_word(0, LINK_IN, 0)

    def sent(self):
        return self.word(0, 1)

    def taken(self):
        return self.word(1, 9)
