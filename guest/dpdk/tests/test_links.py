"""Direct links in the driver, with stock Open vSwitch and stock testpmd: no frame is lost, repeated or out of order.

    tests/ports.sh [Links.NAME]     (as root; builds the driver and fetches Open vSwitch)
"""

import os
import random
import re
import time
import unittest

from case import DRIVER, Case
from links import OPEN, Direct, Process, Receiver, Sender, library
from memory import (ALLOW, BAD, FORCE, FULL, KNOWS_LINKS, PAGE, RING, SENT, SENT_BYTES, SIDE, STATE, TAKEN,
                    TAKEN_BYTES, UNLINK, UNLINKED, Owner, Port)
from switch import Testpmd, until

HANDOVERS = 150
# Of the long run; VFUN_HANDOVERS says another number.
MANY = int(os.environ.get("VFUN_HANDOVERS", 10_000))


class Links(Case):
    def setUp(self):
        super().setUp()
        self.vms = library(self.folder.name)
        self.direct = self.holder = None
        self.owner.greet = self.greet

    def greet(self, driver):
        """As a manager: it tells a driver that comes anew of the link once that has the memory of both ports."""
        driver.welcome()
        driver.give(self.owner.ports[driver.end.partition("/")[0]])
        link = self.direct
        if link and driver.end == link.end:
            self.owner.driver(link.name)
            # It polls already: what it reads before it is told would be lost.
            self.until_up()
            time.sleep(random.random() * 0.2)
            link.tell(driver)

    def ends(self, window=256, flows=1):
        receiver = Receiver(self.vms, self.b).start()
        sender = Sender(self.vms, self.a, receiver, window=window, flows=flows).start()
        self.addCleanup(receiver.stop)
        self.addCleanup(sender.stop)
        return sender, receiver

    def link(self, sender, receiver):
        return Direct(self.owner, self.vms, sender, receiver).begin()

    def holding_switch(self, microseconds=2000, threads=1):
        """A switch that keeps frames, and receives from A and B by one thread or by two. One that sleeps keeps none."""
        switch = self.switch()
        switch.vsctl("set", "Open_vSwitch", ".", f"other_config:tx-flush-interval={microseconds}",
                     f"other_config:pmd-cpu-mask={2**threads - 1}", "other_config:pmd-maxsleep=0")
        switch.vsctl("set", "Interface", "pa", "other_config:pmd-rxq-affinity=0:0")
        switch.vsctl("set", "Interface", "pb", f"other_config:pmd-rxq-affinity=0:{threads - 1}")
        self.until_up()
        self.holder = switch
        return switch

    def told(self):
        """What the switch counts, where a test fails."""
        return self.holder and self.holder.ofctl("dump-ports", "br0", "-O", "OpenFlow14")

    def late(self, what="late"):
        """How often the driver at B's port gave up waiting for a frame; "behind": frames that came after all."""
        text = self.holder.ofctl("dump-ports", "br0", "2", "-O", "OpenFlow14")
        return int(re.search(rf"tx_direct_{what}_errors=(\d+)", text)[1])

    def until_up(self):
        until("both devices are there", lambda: self.a.word(0, STATE) == 1 and self.b.word(0, STATE) == 1)

    def forwarder(self, *more):
        """A testpmd with two devices, of which each sends what the other one receives."""
        program = Testpmd(DRIVER, f"vfun-{os.path.basename(self.folder.name)}-io", f"net_vfun0,{self.at('a/host')}", "io",
                          ("--nb-cores=1", "--no-flush-rx", *more), devices=[f"net_vfun1,{self.at('b/host')}"])
        self.addCleanup(program.stop)
        self.until_up()
        return program

    def moves(self, receiver, frames=100, source=0):
        """Frames arrive."""
        before = receiver.came(source)
        until(f"{frames} frames", lambda: receiver.came(source) >= before + frames)

    def finish(self, sender, receiver, missing=0):
        """
        All that was sent is there, once and in order, apart from what is known to be missing (a number, or
        what says it once all is there) and from frames that the driver counts as too late.
        """
        sender.hold(1)
        flows = range(sender.source, sender.source + sender.flows)
        until("all came", lambda: all(receiver.came(f) == sender.sent(f - sender.source) for f in flows))
        missing = missing() if callable(missing) else missing
        early = sum(receiver.count("early", f) for f in flows)
        self.assertEqual(sum(receiver.count("missing", f) for f in flows) - early, missing, self.told())
        self.assertEqual(receiver.count("strange"), 0, self.told())
        # A switch that keeps a frame for longer than drivers reckon is no mistake of the driver (R-LNK-5).
        self.assertLessEqual(early, self.late("behind") if early and self.holder else 0, self.told())

    def dropped_between(self, *links):
        """Frames that left A and never were in a ring of B: by the switch, or with a driver that was killed, or in a link that ended."""
        direct = sum(link.sent() - link.taken() for link in links)
        return self.a.word(1, SENT) - self.b.word(0, SENT) + direct

    # ---- handovers ------------------------------------------------------

    def test_no_frame_is_lost_repeated_or_out_of_order_through_many_handovers(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        self.assertEqual(self.owner.driver("a/host").knows, KNOWS_LINKS)
        link = self.link(sender, receiver)
        for _ in range(HANDOVERS):
            link.out()
            if random.random() < 0.5:
                self.moves(receiver, random.randrange(200))
            link.back()
            if random.random() < 0.5:
                self.moves(receiver, random.randrange(200))
        self.finish(sender, receiver)
        self.assertGreater(receiver.count("by_port"), HANDOVERS * 10)
        self.assertGreater(receiver.count("by_link"), HANDOVERS * 10)
        self.assertEqual((self.a.word(0, BAD), self.b.word(1, BAD), self.b.word(0, FULL)), (0, 0, 0))
        # Most turns are told by the fence, and not by the clock.
        self.assertLess(self.late(), HANDOVERS)
        self.counts_are_exact(switch, link)
        link.unlink()
        self.counts_are_exact(switch, link)

    def extended(self, switch, name, key):
        text = switch.vsctl("get", "Interface", name, "statistics")
        found = re.search(rf"\b{key}=(\d+)", text)
        self.assertTrue(found, text)
        return int(found[1])

    def counts_are_exact(self, switch, link):
        """What the switch says is what went by the ports' rings and by the link's."""
        def is_so():
            return (switch.counts(1)["taken"] == self.a.word(1, SENT) + link.sent() and
                    switch.counts(2)["sent"] == self.b.word(0, SENT) + link.taken())
        until("the counts are exact", is_so, 10)
        until("Open vSwitch shows what went directly", lambda: (
            self.extended(switch, "pa", "rx_q0_packets_direct") == link.sent() and
            self.extended(switch, "pa", "rx_q0_bytes_direct") == link.word(0, SENT_BYTES) and
            self.extended(switch, "pb", "tx_q0_packets_direct") == link.taken() and
            self.extended(switch, "pb", "tx_q0_bytes_direct") == link.word(1, TAKEN_BYTES)), 20)

    def test_flows_that_overtake_each_other_in_the_switch_hold_nobody(self):
        """Open vSwitch sends a burst's frames flow by flow: that is no frame that is awaited."""
        switch = self.holding_switch(0)
        for flow in range(3):
            switch.ofctl("add-flow", "br0", f"in_port=1,priority=40000,dl_src=02:00:00:00:00:0{flow},actions=output:2")
        sender, receiver = self.ends(flows=3)
        self.moves(receiver)
        link = self.link(sender, receiver)
        for _ in range(HANDOVERS):
            link.out()
            link.back()
        self.finish(sender, receiver)
        # Without a look at all numbers each second handover is late.
        self.assertLess(self.late(), HANDOVERS / 10)

    @unittest.skipUnless("VFUN_HANDOVERS" in os.environ, "a long run; tests/ports.sh has it")
    def test_thousands_of_handovers_between_processes(self):
        """The two VMs' ends, the switch and the manager are processes of their own, as they are in use."""
        switch = self.holding_switch(1000)
        receiver = Receiver(self.vms, self.b)
        sender = Sender(self.vms, self.a, receiver, window=256)
        link = Direct(self.owner, self.vms, sender, receiver)
        link.pause = 0.001
        # What a process has is what is there now.
        link.begin()
        receiver.start(Process)
        sender.start(Process)
        self.addCleanup(receiver.stop)
        self.addCleanup(sender.stop)
        self.moves(receiver)
        begun = time.monotonic()
        for _ in range(MANY):
            link.out()
            link.back()
        seconds = time.monotonic() - begun
        self.finish(sender, receiver)
        self.counts_are_exact(switch, link)
        self.assertGreater(receiver.count("by_link"), MANY)
        self.assertEqual((self.a.word(0, BAD), self.b.word(1, BAD)), (0, 0))
        print(f"\n{MANY} handovers there and back in {seconds:.0f} s, {sender.sent()} frames, "
              f"{receiver.count('by_link')} of them over the link: 0 lost but {receiver.count('missing') - receiver.count('early')} counted, "
              f"{receiver.count('early')} repeated or out of order, {self.late()} turns late", flush=True)

    def test_another_port_loses_nothing_while_turns_are_awaited(self):
        """The thread that receives from B looks whether to tell; one that sends to B finds the gate taken."""
        switch = self.holding_switch(threads=2)
        c = Port("c")
        self.owner.ports["c"] = c
        self.ports.append(c)
        switch.add("pc", 3, self.at("c/host"))
        switch.vsctl("set", "Interface", "pc", "other_config:pmd-rxq-affinity=0:0")
        switch.ofctl("add-flow", "br0", "in_port=3,actions=output:2")
        until("the third device is there", lambda: c.word(0, STATE) == 1)
        sender, receiver = self.ends()
        other = Sender(self.vms, c, receiver, source=1).start()
        self.addCleanup(other.stop)
        self.moves(receiver)
        self.moves(receiver, source=1)
        link = self.link(sender, receiver)
        for _ in range(HANDOVERS):
            link.out()
            link.back()
        self.finish(sender, receiver)
        self.finish(other, receiver)
        self.assertEqual(self.b.word(0, FULL), 0)

    def test_what_finds_no_room_is_dropped_and_counted_and_a_turn_finds_room(self):
        """As long as a turn has no room, the thread that receives from B tries to tell; none of its tries costs a frame."""
        switch = self.holding_switch(0, threads=2)
        sender, receiver = self.ends(window=1_000_000)
        self.moves(receiver)
        link = self.link(sender, receiver)
        link.out()
        link.back()
        for _ in range(3):
            full = self.b.word(0, FULL)
            receiver.hold(1)
            until("the ring is full", lambda: self.b.word(0, FULL) > full)
            for is_back in (0, 1):
                if not is_back:
                    link.allow()
                link.turn(is_back)
                until("the sender turns", lambda: link.is_acked(is_back))
            full = self.b.word(0, FULL)
            until("it goes on", lambda: self.b.word(0, FULL) > full + 5000)
            receiver.hold(0)
            link.until_both(1)
        self.finish(sender, receiver, missing=self.b.word(0, FULL))
        until("Open vSwitch counts them", lambda: self.extended(switch, "pb", "tx_errors") == self.b.word(0, FULL), 20)

    def test_turns_are_told_though_nothing_is_sent_and_counts_of_a_testpmd_are_exact(self):
        program = self.forwarder("--interactive")
        program.say("start")
        sender, receiver = self.ends()
        self.moves(receiver)
        link = self.link(sender, receiver)
        sender.hold(1)
        until("all came", lambda: receiver.came() == sender.sent())
        for _ in range(20):
            link.out()
            link.back()
        sender.hold(0)
        for _ in range(HANDOVERS):
            link.out()
            link.back()
        self.finish(sender, receiver)
        # After a reset they begin at 0. It writes when it ends.
        for command in ("stop", "show port xstats all", "clear port xstats all", "show port xstats all", "quit"):
            program.say(command)
        program.process.wait(timeout=30)
        text = program.stop()

        def told(name):
            return [int(n) for n in re.findall(rf"\b{name}: (\d+)", text)]
        by_ring = self.a.word(1, SENT), self.b.word(0, SENT)
        self.assertEqual(told("rx_good_packets"), [by_ring[0] + link.sent(), 0, 0, 0])
        self.assertEqual(told("tx_good_packets"), [0, by_ring[1] + link.taken(), 0, 0])
        self.assertEqual(told("rx_good_bytes")[0], self.a.word(1, SENT_BYTES) + link.word(0, SENT_BYTES))
        self.assertEqual(told("tx_good_bytes")[1], self.b.word(0, SENT_BYTES) + link.word(1, TAKEN_BYTES))
        self.assertEqual(told("rx_q0_packets_direct"), [link.sent(), 0, 0, 0])
        self.assertEqual(told("tx_q0_packets_direct"), [0, link.taken(), 0, 0])
        self.assertEqual(told("tx_direct_late_errors"), [0, 0, 0, 0])

    def test_frames_that_the_switch_drops_hold_nobody_for_long(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        link = self.link(sender, receiver)
        sender.hold(1)
        until("all came", lambda: receiver.came() == sender.sent())
        switch.ofctl("add-flow", "br0", "in_port=1,actions=drop")
        sender.hold(0)
        until("frames are dropped", lambda: sender.sent() > receiver.came() + 100)
        link.out()
        switch.ofctl("add-flow", "br0", "in_port=1,actions=output:2")
        link.back()
        self.moves(receiver)
        self.finish(sender, receiver, missing=self.dropped_between)
        self.assertGreater(self.dropped_between(), 100)
        until("it is counted", lambda: self.late() == 1)

    # ---- by force, and the end ------------------------------------------

    def test_a_sender_that_does_not_turn_is_turned_by_force(self):
        self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        dropped = 0
        for on_the_link in (True, False):
            link = self.link(sender, receiver)
            if on_the_link:
                link.out()
                self.moves(receiver)
            else:
                link.allow()
            sender.stop()
            until("all came", lambda: receiver.came() == sender.sent() or not on_the_link)
            link.force()
            until("the receiver heard of it", lambda: link.is_open(1))
            # The VM goes on. Its own turn back comes late, and means nothing.
            link.turn(1)
            sender.start()
            until("the sender turns", lambda: link.is_acked(1) or not on_the_link)
            self.moves(receiver)
            link.unlink()
            link.is_over()
            self.moves(receiver)
            dropped += link.sent() - link.taken()
        # What the VM put into the link's ring before it looked is dropped, as R-LNK-10 says.
        self.finish(sender, receiver, missing=dropped)

    def test_links_come_and_go_under_traffic(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        direct = []
        for _ in range(15):
            link = self.link(sender, receiver)
            direct.append(link)
            link.out()
            self.moves(receiver, 50)
            link.back()
            link.unlink()
            link.is_over()
            # If it is named once more, its frames are not counted once more.
            link.tell()
            link.unlink()
        self.finish(sender, receiver)
        self.assertEqual(self.b.word(0, FULL), 0)
        until("the counts are exact", lambda: (
            switch.counts(1)["taken"] == self.a.word(1, SENT) + sum(link.sent() for link in direct) and
            switch.counts(2)["sent"] == self.b.word(0, SENT) + sum(link.taken() for link in direct)), 10)
        self.assertGreater(sum(link.sent() for link in direct), 500)

    def test_a_device_that_is_closed_ends_its_links(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        links = []
        for name, number, port in (("pb", 2, "b/host"), ("pa", 1, "a/host")):
            link = self.link(sender, receiver)
            links.append(link)
            link.out()
            driver = link.driver()
            switch.vsctl("del-port", "br0", name)
            driver.says(UNLINKED, link.number)
            link.is_over()
            switch.add(name, number, self.at(port))
            self.rules(switch)
            self.until_up()
            self.moves(receiver)
        # Neither device keeps anything of it.
        link = self.link(sender, receiver)
        link.out()
        self.moves(receiver)
        link.back()
        links.append(link)
        self.finish(sender, receiver, missing=lambda: self.dropped_between(*links))

    # ---- memory and drivers come and go ---------------------------------

    def test_memory_of_either_port_goes_and_comes(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        for which in "abab":
            link = self.link(sender, receiver)
            link.out()
            self.moves(receiver)
            vm = sender if which == "a" else receiver
            old, new = vm.port, Port(which)
            self.ports.append(new)
            driver = self.owner.driver(f"{which}/host")
            driver.drop(old.handle)
            if which == "a":
                # Nothing more comes from there: the receiver hears that the epoch is over.
                until("the receiver turns back", lambda: link.is_open(1))
            link.is_over()
            vm.renew(new)
            setattr(self, which, new)
            self.owner.ports[which] = new
            driver.give(new)
            until("the device is up", lambda: new.word(0, STATE) == 1)
            self.moves(receiver)
            link.force()
            link.unlink()
            self.assertTrue(switch.is_alive(), switch.complaints())
        self.assertEqual(receiver.count("early"), 0)

    def test_a_manager_that_is_started_again_finds_the_link(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        link = self.direct = self.link(sender, receiver)
        link.out()
        self.owner.die()
        self.moves(receiver)
        self.owner = link.owner = Owner(self.socket, self.ports, self.greet)
        link.driver()
        self.moves(receiver)
        link.back()
        link.out()
        link.back()
        self.finish(sender, receiver)
        self.counts_are_exact(switch, link)

    def stages(self, link, receiver):
        """What a manager does, step by step; the driver may be killed behind each."""
        def pause():
            time.sleep(random.random() * 0.004)
        yield "the link is known"
        link.allow()
        yield "an epoch is allowed"
        link.turn(0)
        pause()
        yield "the sender is told to turn"
        link.until_both(0)
        self.moves(receiver)
        yield "frames go over the link"
        link.turn(1)
        pause()
        yield "the sender is told to turn back"
        link.until_both(1)
        self.moves(receiver)
        yield "they are back"

    def test_a_driver_is_killed_and_started_again_in_each_stage(self):
        program = self.forwarder()
        sender, receiver = self.ends()
        self.moves(receiver)
        link = self.direct = self.link(sender, receiver)
        for round_ in range(3):
            for victim in range(6):
                for number, _ in enumerate(self.stages(link, receiver)):
                    if number != victim:
                        continue
                    program.process.kill()
                    program.stop()
                    self.a.set_word(0, STATE, 0)
                    self.b.set_word(0, STATE, 0)
                    if number == 3:
                        self.moves(receiver)
                    if number in (1, 3):
                        # The record of a turn waits for the next driver.
                        link.turn(number == 3)
                        until("the sender turns", lambda: link.is_acked(number == 3))
                    program = self.forwarder()
                self.assertEqual(receiver.count("early"), 0, (round_, victim))
        # The way back of the last epoch, if the driver died before it.
        self.finish(sender, receiver, missing=lambda: self.dropped_between(link))
        self.assertEqual(self.b.word(1, OPEN), 2 * link.epoch + 1)
        # No record came before the driver knew the link, and no frame was dropped for want of room.
        self.assertEqual((self.a.word(0, BAD), self.b.word(1, BAD), self.b.word(0, FULL)), (0, 0, 0))

    # ---- what cannot be -------------------------------------------------

    def test_links_that_cannot_be_are_refused(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        link = Direct(self.owner, self.vms, sender, receiver)
        driver = link.driver()
        reads, writes = os.pipe()
        for more, said in [
            ({"sentence": b"nobody/host"}, "this process has no such port"),
            ({"sentence": b"a/host"}, "it begins there"),
            ({"mine": 0, "theirs": 8 * SIDE}, "do not lie in its file"),
            ({"mine": 2 * SIDE, "theirs": 0}, "do not lie in its file"),
            ({"mine": 2**64 - 4096}, "do not lie in its file"),
            ({"fds": [writes]}, "do not lie in its file"),
        ]:
            with self.subTest(more=more):
                link.number += 1
                link.tell(**more)
                driver.says(UNLINKED, link.number)
                with open(f"{self.folder.name}/vswitchd.log", encoding="utf-8") as log:
                    self.assertIn(said, log.read())
        for kind, epoch in ((ALLOW, 1), (ALLOW, 2**63 - 1), (UNLINK, 0), (FORCE, 7)):
            driver.say(kind, handle=4711, epoch=epoch)
        until("it knows no such link", lambda: driver.links.count((UNLINKED, 4711, 0)) == 4)
        link.number += 1
        link.tell()
        # The other way between the two is a link of its own.
        back = Direct(self.owner, self.vms, receiver, sender, name="a/host", end="b/host")
        back.tell()
        back.allow()
        # Where one ends, no other one does.
        c = Port("c")
        self.owner.ports["c"] = c
        self.ports.append(c)
        switch.add("pc", 3, self.at("c/host"))
        third = Direct(self.owner, self.vms, sender, receiver, end="c/host")
        third.tell()
        third.driver().says(UNLINKED, third.number)
        with open(f"{self.folder.name}/vswitchd.log", encoding="utf-8") as log:
            self.assertIn("another one ends there", log.read())
        self.assertTrue(switch.is_alive(), switch.complaints())
        os.close(reads)
        os.close(writes)

    def test_claims_that_cannot_be_are_not_counted_and_end_the_link(self):
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        link = self.link(sender, receiver)
        link.out()
        self.moves(receiver)
        link.back()
        self.finish(sender, receiver)
        self.counts_are_exact(switch, link)
        sent, before = link.sent(), switch.counts(1)["taken"]
        for lie in (sent - 1, sent + 18 * RING // 64, sent + (1 << 41), 0):
            link.set_word(0, SENT, lie)
            self.assertEqual(switch.counts(1)["taken"], before)
        driver = link.driver()
        until("the driver ends the link", lambda: switch.counts(1) and (UNLINKED, link.number, 0) in driver.links)
        self.assertEqual(switch.counts(1)["taken"], before)

    def test_a_sender_that_stops_between_two_of_its_counts_keeps_its_link(self):
        """As a VM that is stopped there: its counts are wrong by what the ring holds, and for long."""
        switch = self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        link = self.link(sender, receiver)
        link.out()
        self.moves(receiver)
        link.back()
        self.finish(sender, receiver)
        sent, bytes_, before = link.sent(), link.word(0, SENT_BYTES), switch.counts(1)["taken"]
        link.set_word(0, SENT, sent + 5)
        ends = time.monotonic() + 3
        while time.monotonic() < ends:
            self.assertEqual(switch.counts(1)["taken"], before + 5)
            time.sleep(0.1)
        link.set_word(0, SENT_BYTES, bytes_ + 5 * 60)
        self.assertEqual(link.driver().links.count((UNLINKED, link.number, 0)), 0)
        link.unlink()

    def test_nonsense_of_links_ends_the_connection(self):
        self.holding_switch()
        sender, receiver = self.ends()
        self.moves(receiver)
        link = self.direct = self.link(sender, receiver)
        link.out()
        place = {"handle": 9, "mine": PAGE, "theirs": PAGE + SIDE, "ring": RING, "sentence": b"b/host"}
        for kind, more, fds in [
            (5, place, 0), (5, place, 2), (5, {**place, "handle": 0}, 1), (5, {**place, "ring": RING + 1}, 1),
            (5, {**place, "theirs": PAGE + 1}, 1), (5, {**place, "theirs": SIDE}, 1), (5, {**place, "sentence": b""}, 1),
            (5, {**place, "epoch": 1 << 63}, 1), (6, {"handle": 9}, 0), (6, {"handle": 0, "epoch": 1}, 0),
            (6, {"handle": 9, "epoch": 1 << 63}, 0), (7, {"handle": 9}, 0), (8, {}, 0), (8, {"handle": 9}, 1), (9, {"handle": 9}, 0),
        ]:
            with self.subTest(kind=kind, more=more, fds=fds):
                driver = link.driver()
                driver.say(kind, fds=[link.fd] * fds, **more)
                driver.is_over()
                self.moves(receiver)
        link.back()
        self.finish(sender, receiver)
