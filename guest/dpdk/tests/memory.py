"""The memory of ports and who hands it out, as a manager does: for tests of the driver."""

import fcntl
import itertools
import mmap
import os
import socket
import struct
import threading
import time

PAGE = 4096
RING = 2 << 20
SIDE = PAGE + RING
# The word that is counted up before a ring: behind both sides.
NEWS_AT = 2 * SIDE + 16
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
# What is said over the socket (guest/dpdk/vfun_link.h).
ASK = struct.Struct("<QIIQQ64s")
WORD = struct.Struct("<QIIQQQQQQ184s")
ASK_MAGIC = int.from_bytes(b"PORTASK3", "little")
WORD_MAGIC = int.from_bytes(b"PORTWRD3", "little")
ASKS, LETS_GO, GOODBYE, ALLOWED, FORCED, UNLINKED = 1, 2, 3, 4, 5, 6
WELCOME, REFUSED_WORD, MEMORY, DROP, LINK, ALLOW, FORCE, UNLINK = 1, 2, 3, 4, 5, 6, 7, 8
KNOWS_LINKS = 1
# Words of a header page (docs/protocol.md, section 16).
HEAD, SENT, SENT_BYTES, FULL, LONG = 0, 1, 2, 3, 4
TAIL, TAKEN, TAKEN_BYTES, REFUSED, BAD = 8, 9, 10, 11, 12
STATE, FRAME, WAKE = 16, 17, 24


class Port:
    """Two sides, the host's at 0, the guest's behind it; and a page with the word that is counted up before a ring."""

    handles = itertools.count(0x7000_0000_0001)

    def __init__(self, name, sealed=True):
        self.name, self.handle = name, next(self.handles)
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, 2 * SIDE + PAGE)
        if sealed:
            fcntl.fcntl(self.fd, F_ADD_SEALS, F_SEAL_SHRINK)
        self.memory = mmap.mmap(self.fd, 2 * SIDE + PAGE)

    def __del__(self):
        if hasattr(self, "fd"):
            os.close(self.fd)

    def word(self, of_guest, index):
        return struct.unpack_from("<Q", self.memory, SIDE * of_guest + 8 * index)[0]

    def set_word(self, of_guest, index, value):
        struct.pack_into("<Q", self.memory, SIDE * of_guest + 8 * index, value)

    def news(self):
        return struct.unpack_from("<Q", self.memory, NEWS_AT)[0]

    def counts(self, of_guest):
        """Frames that this side sent and took, and what it counted as wrong."""
        names = {"sent": SENT, "taken": TAKEN, "full": FULL, "refused": REFUSED, "bad": BAD}
        return {name: self.word(of_guest, index) for name, index in names.items()}


class Driver:
    """A driver that asked for one end of a port: `NAME/host` or `NAME/guest`."""

    def __init__(self, peer):
        self.peer, self.end, self.handle = peer, None, None
        self.gone, self.over, self.news = [], False, threading.Condition()
        self.knows, self.links = 0, []

    def say(self, kind, code=0, handle=0, mine=0, theirs=0, ring=0, news=0, epoch=0, sentence=b"", fds=()):
        message = WORD.pack(WORD_MAGIC, kind, code, handle, mine, theirs, ring, news, epoch, sentence)
        self.send(message, fds)

    def send(self, message, fds=()):
        socket.send_fds(self.peer, [message], list(fds))

    def welcome(self):
        self.say(WELCOME, ring=RING)

    def give(self, port, bell=None):
        mine = SIDE if self.end.endswith("/guest") else 0
        self.say(MEMORY, handle=port.handle, mine=mine, theirs=SIDE - mine, ring=RING,
                 news=0 if bell is None else NEWS_AT, fds=[port.fd] if bell is None else [port.fd, bell])

    def drop(self, handle):
        """Waits until the driver has let go."""
        with self.news:
            before = self.gone.count(handle)
        self.say(DROP, handle=handle)
        self.lets_go(handle, before + 1)

    def lets_go(self, handle, times=1):
        with self.news:
            if not self.news.wait_for(lambda: self.gone.count(handle) >= times or self.over, 20):
                raise AssertionError(f"{self.end}: handle {handle:#x} was not let go of")
            if self.gone.count(handle) < times:
                raise AssertionError(f"{self.end}: the driver hung up")

    def is_over(self):
        """Waits until the driver has hung up."""
        with self.news:
            if not self.news.wait_for(lambda: self.over, 20):
                raise AssertionError(f"{self.end}: the driver did not hang up")

    def hang_up(self):
        self.peer.shutdown(socket.SHUT_RDWR)

    def says(self, kind, link, epoch=0, times=1):
        """Waits until it has said something of a link."""
        said = kind, link, epoch
        with self.news:
            if not self.news.wait_for(lambda: self.links.count(said) >= times or self.over, 20):
                raise AssertionError(f"{self.end}: it did not say {said}, but {self.links}")
            if self.links.count(said) < times:
                raise AssertionError(f"{self.end}: the driver hung up")

    def hear(self):
        """Its next word, kept here; False: there is none any more."""
        message = self.peer.recv(256)
        if len(message) != ASK.size:
            return False
        magic, kind, knows, handle, epoch, name = ASK.unpack(message)
        of_links = kind in (ALLOWED, FORCED, UNLINKED)
        if magic != ASK_MAGIC or (epoch != 0) != (kind in (ALLOWED, FORCED)) or (kind == ASKS) != (self.end is None):
            raise AssertionError(f"a driver says {message!r}")
        if kind == ASKS:
            self.knows, self.handle, self.end = knows, handle, name.rstrip(b"\0").decode(errors="replace")
        elif kind in (LETS_GO, GOODBYE) or of_links:
            with self.news:
                if of_links:
                    self.links.append((kind, handle, epoch))
                else:
                    self.gone.append(handle)
                self.news.notify_all()
        else:
            raise AssertionError(f"a driver says {message!r}")
        return True


class Owner:
    """Hands out ports by name, and takes them back.

    `ports` are those whose memory is given out as soon as a driver asks. `greet` may do
    something else with a driver that has asked.
    """

    def __init__(self, path, ports, greet=None):
        self.path, self.ports, self.drivers = path, {p.name: p for p in ports}, []
        self.greet, self.news, self.asked = greet or self.serve, threading.Condition(), 0
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(Driver(peer),), daemon=True).start()

    def talk(self, driver):
        try:
            if driver.hear():
                self.greet(driver)
                with self.news:
                    self.drivers.append(driver)
                    self.asked += 1
                    self.news.notify_all()
            while driver.hear():
                pass
        except OSError:
            pass
        with driver.news:
            driver.over = True
            driver.news.notify_all()
        with self.news:
            if driver in self.drivers:
                self.drivers.remove(driver)
        driver.peer.close()

    def serve(self, driver):
        name = driver.end.partition("/")[0]
        if name not in self.ports:
            driver.say(REFUSED_WORD, code=1, sentence=b"there is no such port")
            return
        driver.welcome()
        if self.ports[name]:
            driver.give(self.ports[name])

    def driver(self, end, seconds=20):
        """The newest driver of this end, as soon as there is one."""
        deadline = time.monotonic() + seconds
        with self.news:
            while True:
                for driver in reversed(self.drivers):
                    if driver.end == end:
                        return driver
                if not self.news.wait(deadline - time.monotonic()):
                    raise AssertionError(f"no driver asked for {end}")

    def give(self, port):
        """Memory in place of what there was, to both ends of the port if they are there."""
        self.ports[port.name] = port
        for driver in self.of(port.name):
            driver.give(port)

    def drop(self, port):
        """Takes the memory back from both ends; they have let go when it returns."""
        self.ports[port.name] = None
        for driver in self.of(port.name):
            driver.drop(port.handle)

    def remove(self, name):
        """As if the port were taken out of the manifest."""
        del self.ports[name]
        for driver in self.of(name):
            driver.say(REFUSED_WORD, code=2, sentence=b"the port was removed")

    def of(self, name):
        with self.news:
            return [d for d in self.drivers if d.end.partition("/")[0] == name]

    def die(self):
        """As if the process ended."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)
        with self.news:
            drivers = list(self.drivers)
        for driver in drivers:
            driver.hang_up()
