"""An owner of the socket that does what it must not.

    tests/ports.sh [Liars.NAME]     (as root; builds the driver)
"""

import os
import socket
import subprocess
import sys

from case import Case
from memory import (DROP, MEMORY, REFUSED_WORD, RING, SIDE, STATE, TAKEN, WELCOME, WORD, WORD_MAGIC,
                    Port)
from switch import until


def word(kind=WELCOME, magic=WORD_MAGIC, **more):
    told = {"code": 0, "handle": 0, "mine": 0, "theirs": 0, "ring": RING, "news": 0, "epoch": 0, "sentence": b"", **more}
    return WORD.pack(magic, kind, *told.values())


class Liars(Case):
    def refused(self, arguments, said):
        program = self.program_with(arguments)
        program.until_it_says(said, seconds=10)
        # Not even one that waits for its memory.
        program.until_it_says("No probed ethernet devices")
        program.stop()

    def test_a_stranger_is_no_owner(self):
        strange = "is not one of VirtFun's"
        for message, descriptors, said in [
            (word(magic=1), 0, strange),
            (word(magic=int.from_bytes(b"PORTANS1", "little")), 0, strange),
            (word()[:100], 0, strange),
            (word() + b"more", 0, strange),
            (word(kind=9), 0, strange),
            (word(), 1, strange),
            (word(ring=3 << 20), 0, strange),
            (word(kind=REFUSED_WORD), 0, strange),
            (word(kind=REFUSED_WORD, code=7, sentence=b"x" * 184), 0, "the port was refused: " + "x" * 183),
            (word(kind=MEMORY, handle=1, theirs=SIDE), 1, "did not greet"),
            (word(kind=DROP, handle=1), 0, "did not greet"),
        ]:
            with self.subTest(said=said, message=message[:16]):
                self.owner.greet = lambda driver: driver.send(message, [self.a.fd] * descriptors)
                self.refused(self.at("a/host"), said)

    def test_a_socket_of_another_kind_or_user_is_refused(self):
        path = f"{self.folder.name}/stream.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.bind(path)
            stream.listen()
            self.refused(f"socket={path},port=a", "is a socket of another kind")
        # Who listened last is the owner of a socket.
        another = subprocess.Popen(
            [sys.executable, "-c", "import os, socket; os.setuid(65534); socket.socket(fileno=0).listen()"],
            stdin=self.owner.listener)
        self.assertEqual(another.wait(), 0)
        self.refused(self.at("a/host"), "belongs neither to root nor to this user")
        self.refused(self.at("a/host") + ",owner=65533", "belongs neither to root nor to this user")
        program = self.program_with(self.at("a/host") + ",owner=65534")
        until("the program is there", lambda: self.a.word(0, STATE) == 1)
        program.stop()

    def test_an_owner_that_does_not_answer_does_not_keep_a_program_from_its_start(self):
        self.owner.greet = lambda driver: None
        program = self.program("a/host", "rxonly")
        program.until_it_says("does not answer within 5 s; until the host gives the port out, its link is down")
        # A late answer is one.
        self.owner.serve(self.owner.driver("a/host"))
        until("the program is there", lambda: self.a.word(0, STATE) == 1)

    def test_one_that_hangs_up_is_asked_again(self):
        self.owner.greet = lambda driver: driver.hang_up()
        program = self.program("a/host", "rxonly")
        program.until_it_says("hung up; until the host gives the port out, its link is down")
        self.owner.greet = self.owner.serve
        until("the program is there", lambda: self.a.word(0, STATE) == 1)

    def frames_go(self):
        receiver = self.program("a/host", "rxonly")
        until("the receiver is there", lambda: self.a.word(0, STATE) == 1)
        self.program("a/guest", "txonly")
        self.flows(self.a, 0, TAKEN, 10_000)
        return receiver, len(os.listdir(f"/proc/{receiver.process.pid}/fd"))

    def test_nonsense_ends_the_connection_and_not_the_use_of_the_memory(self):
        receiver, descriptors = self.frames_go()
        memory = {"kind": MEMORY, "handle": 77, "theirs": SIDE}
        for message, fds in [
            (word(magic=1), 0),
            (word()[:-1], 0),
            (word() + bytes(1), 0),
            (b"?", 0),
            (word(kind=5), 0),
            (word(kind=0), 0),
            (word(kind=DROP, handle=self.a.handle), 1),
            (word(kind=REFUSED_WORD), 0),
            (word(**memory), 0),
            (word(**memory), 3),
            (word(**memory), 200),
            (word(**{**memory, "handle": 0}), 1),
        ]:
            with self.subTest(message=message[:16], fds=fds):
                driver = self.owner.driver("a/host")
                driver.send(message, [self.a.fd] * fds)
                driver.is_over()
                # It is asked again, and the memory was in use all the time.
                self.assertEqual(self.owner.driver("a/host").handle, self.a.handle)
                self.assertEqual(self.a.word(0, STATE), 1)
                self.flows(self.a, 0, TAKEN, 1000)
        until("it closed what came", lambda: len(os.listdir(f"/proc/{receiver.process.pid}/fd")) == descriptors)
        self.assertTrue(receiver.is_alive())

    def test_memory_that_cannot_be_used_is_let_go_of(self):
        receiver, descriptors = self.frames_go()
        driver = self.owner.driver("a/host")
        file = os.open(f"{self.folder.name}/file", os.O_RDWR | os.O_CREAT)
        os.truncate(file, 2 * SIDE)
        reads, writes = os.pipe()
        os.close(reads)
        loose = Port("loose", sealed=False)
        good, handle = {"theirs": SIDE, "ring": RING}, 0x100
        for place, fds, said in [
            (good, [loose.fd], "is not sealed against shrinking"),
            (good, [file], "is not sealed against shrinking"),
            (good, [writes], "is not sealed against shrinking"),
            (good, [self.a.fd, writes], "what rings the peer is no eventfd"),
            (good, [self.a.fd, self.b.fd], "what rings the peer is no eventfd"),
            ({**good, "theirs": SIDE - 4096}, [self.a.fd], "overlap, do not begin at a page, or lie outside"),
            ({**good, "theirs": SIDE + 1}, [self.a.fd], "overlap, do not begin at a page, or lie outside"),
            ({**good, "theirs": 2 * SIDE}, [self.a.fd], "overlap, do not begin at a page, or lie outside"),
            ({**good, "mine": 2**64 - 4096}, [self.a.fd], "overlap, do not begin at a page, or lie outside"),
            ({**good, "ring": RING + 1}, [self.a.fd], "a ring has a power of two"),
            ({**good, "ring": 2**63}, [self.a.fd], "a ring has a power of two"),
        ]:
            with self.subTest(said=said, place=place):
                handle += 1
                driver.say(MEMORY, handle=handle, fds=fds, **place)
                driver.lets_go(handle)
                receiver.until_it_says(said)
        # It let go of the good memory first, and only once.
        self.assertEqual(driver.gone.count(self.a.handle), 1)
        self.assertEqual(self.a.word(0, STATE), 0)
        driver.drop(0xdead)
        driver.drop(0)
        # All that on one connection, which still serves.
        self.assertIs(driver, self.owner.driver("a/host"))
        driver.give(self.a)
        self.flows(self.a, 0, TAKEN, 10_000)
        until("it closed what came", lambda: len(os.listdir(f"/proc/{receiver.process.pid}/fd")) == descriptors)
        self.assertTrue(receiver.is_alive())
        os.close(file)
        os.close(writes)
