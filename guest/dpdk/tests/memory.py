"""The memory of ports and who hands it out, as a manager does: for tests of the driver."""

import fcntl
import mmap
import os
import socket
import struct
import threading

PAGE = 4096
RING = 2 << 20
SIDE = PAGE + RING
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
ASK = struct.Struct("<Q64s")
ANSWER = struct.Struct("<QIIQQQ192s")
ASK_MAGIC = int.from_bytes(b"PORTASK1", "little")
ANSWER_MAGIC = int.from_bytes(b"PORTANS1", "little")
# Words of a header page (docs/protocol.md, section 16).
HEAD, SENT, SENT_BYTES, FULL, LONG = 0, 1, 2, 3, 4
TAIL, TAKEN, TAKEN_BYTES, REFUSED, BAD = 8, 9, 10, 11, 12
STATE, FRAME = 16, 17


class Port:
    """Two sides: the host's at 0, the guest's behind it."""

    def __init__(self, name, sealed=True):
        self.name = name
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, 2 * SIDE)
        if sealed:
            fcntl.fcntl(self.fd, F_ADD_SEALS, F_SEAL_SHRINK)
        self.memory = mmap.mmap(self.fd, 2 * SIDE)

    def word(self, of_guest, index):
        return struct.unpack_from("<Q", self.memory, SIDE * of_guest + 8 * index)[0]

    def set_word(self, of_guest, index, value):
        struct.pack_into("<Q", self.memory, SIDE * of_guest + 8 * index, value)

    def counts(self, of_guest):
        """Frames that this side sent and took, and what it counted as wrong."""
        names = {"sent": SENT, "taken": TAKEN, "full": FULL, "refused": REFUSED, "bad": BAD}
        return {name: self.word(of_guest, index) for name, index in names.items()}


class Owner:
    """Hands out ports by name; `NAME/guest` and `NAME/host` are its two ends."""

    def __init__(self, path, ports):
        self.path, self.ports, self.held = path, {p.name: p for p in ports}, []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.listener.accept()
            magic, name = ASK.unpack(peer.recv(ASK.size, socket.MSG_WAITALL).ljust(ASK.size, b"\0"))
            name, _, end = name.rstrip(b"\0").decode(errors="replace").partition("/")
            self.held.append(peer)
            if magic != ASK_MAGIC or name not in self.ports:
                peer.sendall(ANSWER.pack(ANSWER_MAGIC, 1, 0, 0, 0, 0, b"there is no such port"))
                continue
            mine = SIDE if end == "guest" else 0
            answer = ANSWER.pack(ANSWER_MAGIC, 0, 0, mine, SIDE - mine, RING, b"")
            socket.send_fds(peer, [answer], [self.ports[name].fd])
