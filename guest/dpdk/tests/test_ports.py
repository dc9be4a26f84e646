"""The DPDK driver of ports with stock testpmd and stock Open vSwitch.

    tests/ports.sh [Ports.NAME]     (as root; builds the driver and fetches Open vSwitch)
"""

import os
import random
import re
import time
import unittest

from case import DRIVER, Case
from memory import FRAME, FULL, HEAD, RING, SENT, SIDE, STATE, TAIL, TAKEN, Owner, Port
from switch import Testpmd, until


class Ports(Case):
    def test_every_frame_of_testpmd_arrives(self):
        for bytes_ in (64, 1500):
            receiver = self.program("a/host", "rxonly")
            until("the receiver is there", lambda: self.a.word(0, STATE) == 1)
            before = self.a.word(1, SENT)
            sender = self.program("a/guest", "txonly", f"--txpkts={bytes_}")
            self.flows(self.a, 0, TAKEN, 100_000)
            said = sender.stop()
            sent = self.a.word(1, SENT)
            until("all came", lambda: self.a.word(0, TAKEN) == sent)
            counted = int(re.findall(r"TX-packets: (\d+)", said)[-1])
            # The program's own number begins at its start; ours at the port's.
            self.assertEqual(counted, sent - before)
            heard = receiver.stop()
            self.assertEqual(int(re.findall(r"RX-packets: (\d+)", heard)[-1]), sent - before)
            self.assertEqual((self.a.counts(0)["bad"], self.a.counts(0)["refused"]), (0, 0))

    def test_the_switch_counts_as_both_ends_do_also_when_it_starts_anew(self):
        switch = self.switch()
        receiver = self.program("b/guest", "rxonly")
        until("the receiver is there", lambda: self.b.word(1, STATE) == 1)
        sender = self.program("a/guest", "txonly")
        self.flows(self.b, 1, TAKEN, 20_000)
        switch.kill()
        at_kill = self.a.word(0, TAKEN)
        switch.start()
        self.rules(switch)
        self.flows(self.b, 1, TAKEN, 20_000)
        sender.stop()
        until("the switch has taken all", lambda: self.a.word(0, TAKEN) == self.a.word(1, SENT))
        until("the receiver has taken all", lambda: self.b.word(1, TAKEN) == self.b.word(0, SENT))
        self.assertGreater(self.a.word(0, TAKEN), at_kill)
        until("the switch says so", lambda: switch.counts(1)["taken"] == self.a.word(1, SENT), 10)
        self.assertEqual(switch.counts(2)["sent"], self.b.word(1, TAKEN))
        receiver.stop()

    def test_ports_go_down_and_away_and_come_back(self):
        switch = self.switch()
        until("the port is up", lambda: self.a.word(0, STATE) == 1)
        guest = self.program("a/guest", "rxonly")

        def state():
            return switch.vsctl("get", "Interface", "pa", "link_state").strip()
        until("the switch sees the guest", lambda: state() == "up")
        switch.ofctl("mod-port", "br0", "pa", "down")
        until("the guest sees it", lambda: self.a.word(0, STATE) == 0)
        switch.ofctl("mod-port", "br0", "pa", "up")
        until("the guest sees it", lambda: self.a.word(0, STATE) == 1)
        guest.stop()
        until("the switch sees that the guest went", lambda: state() == "down")
        switch.vsctl("del-port", "br0", "pa")
        self.assertEqual(self.a.word(0, STATE), 0)
        switch.add("pa", 1, self.at("a/host"))
        until("the port is back", lambda: self.a.word(0, STATE) == 1)
        switch.vsctl("set", "Interface", "pa", "mtu_request=9000")
        until("the port takes long frames", lambda: self.a.word(0, FRAME) >= 9000)

    def test_a_port_that_is_down_carries_nothing_though_both_ends_poll(self):
        receiver = self.program("a/host", "rxonly", "--interactive")
        receiver.say("start")
        until("the receiver is there", lambda: self.a.word(0, STATE) == 1)
        sender = self.program("a/guest", "txonly")
        self.flows(self.a, 0, TAKEN, 10_000)
        receiver.say("set link-down port 0")
        until("the guest sees it", lambda: self.a.word(0, STATE) == 0)
        time.sleep(0.2)
        taken, tried = self.a.word(0, TAKEN), self.a.word(1, FULL)
        until("the guest goes on", lambda: self.a.word(1, FULL) > tried)
        time.sleep(0.5)
        self.assertEqual(self.a.word(0, TAKEN), taken)
        receiver.say("set link-up port 0")
        self.flows(self.a, 0, TAKEN, 10_000)
        sender.stop()
        receiver.stop()

    def test_what_is_wrong_is_said_and_harms_nobody(self):
        switch = self.switch()
        for arguments, said in [
            (self.at("nobody"), "there is no such port"),
            ("socket=/etc/passwd/sock,port=a", "cannot be reached"),
            ("socket=/" + "a" * 120 + ",port=a", "longer than 107 bytes"),
            (self.at("a" * 65), "at most 64 bytes"),
            (self.at("a/host") + ",owner=root", "is no number"),
            ("path=/dev/zero", "a ring has a power of two"),
            ("path=/etc/passwd,ring=4096,theirs=8192", "not sealed against shrinking"),
            ("", "give socket= and port="),
            ("ring=many", "ring=many is no number"),
        ]:
            with self.assertRaises(AssertionError, msg=arguments):
                switch.add("bad", 9, arguments or "mine=0")
            switch.vsctl("del-port", "br0", "bad")
            with open(f"{self.folder.name}/vswitchd.log", encoding="utf-8") as log:
                self.assertIn(said, log.read(), arguments)
        self.assertTrue(switch.is_alive())

    def test_a_guest_that_writes_anything_anywhere_hurts_its_own_port_alone(self):
        switch = self.switch()
        random.seed(7)
        guest, host = memoryview(self.a.memory)[SIDE:], memoryview(self.a.memory)[:SIDE]
        other = Port("c")
        self.ports.append(other)
        path = f"{self.folder.name}/more.sock"
        Owner(path, [other])
        switch.add("pc", 3, f"socket={path},port=c/host")
        switch.ofctl("add-flow", "br0", "in_port=3,actions=output:2")
        receiver = self.program("b/guest", "rxonly")
        until("the receiver is there", lambda: self.b.word(1, STATE) == 1)
        end = time.monotonic() + 10
        written = 0
        while time.monotonic() < end or written < 1_000_000:
            for _ in range(2000):
                side = guest if random.random() < 0.9 else host
                near = random.random() < 0.5
                at = 8 * random.randrange(32 if near else SIDE // 8)
                value = random.choice((random.getrandbits(64), 64 * random.randrange(RING // 32),
                                       1 << 32 | random.randrange(70_000), random.randrange(RING)))
                side[at:at + 8] = value.to_bytes(8, "little")
                written += 1
            head = self.a.word(0, TAIL) + 64 * random.randrange(1, 64)
            self.a.set_word(1, HEAD, head)
        self.assertTrue(switch.is_alive(), switch.complaints())
        # Another port serves.
        sender = Testpmd(DRIVER, f"vfun-{os.path.basename(self.folder.name)}-c",
                         f"net_vfun0,socket={path},port=c/guest", "txonly")
        self.addCleanup(sender.stop)
        self.flows(other, 0, TAKEN, 10_000)
        sender.stop()
        receiver.stop()
        del guest, host


if __name__ == "__main__":
    unittest.main(verbosity=2)
