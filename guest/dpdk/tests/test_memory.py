"""The memory of a port comes and goes while stock testpmd and stock Open vSwitch poll it.

    tests/ports.sh [Memory.NAME]     (as root; builds the driver and fetches Open vSwitch)
"""

import os
import re
import threading
import time

from case import Case
from memory import HEAD, SENT, STATE, TAIL, TAKEN, WAKE, Owner, Port
from switch import until

BURST = 32


class Memory(Case):
    def counted(self, program, what):
        """What a testpmd counted since it forwards, by the device's counts."""
        return int(re.findall(rf"{what}-packets: (\d+)", program.text)[-1])

    def assert_counts_never_go_back(self, program, what):
        # Of the counts that it shows each second; those at its end are of another kind.
        shown = [int(n) for n in re.findall(rf"{what}-packets: (\d+) +{what}-(?:missed|errors):", program.text)]
        self.assertTrue(shown, program.text)
        self.assertEqual(shown, sorted(shown))

    def descriptors(self, program):
        return len(os.listdir(f"/proc/{program.process.pid}/fd"))

    def ends(self):
        """A program that receives and one that sends, and frames go."""
        receiver = self.program("a/host", "rxonly")
        until("the receiver is there", lambda: self.a.word(0, STATE) == 1)
        sender = self.program("a/guest", "txonly")
        self.flows(self.a, 0, TAKEN, 10_000)
        # The other one finds its link up when it starts.
        until("the link is up", lambda: receiver.links() == 1)
        return receiver, sender

    def assert_all_came(self, receiver, sender, memories):
        """What both programs counted is what they did in all of the memories."""
        last = memories[-1]
        sender.stop()
        until("all came", lambda: last.word(0, TAKEN) == last.word(1, SENT))
        receiver.stop()
        for port in memories:
            self.assertEqual((port.counts(0)["bad"], port.counts(0)["refused"]), (0, 0))
        self.assertEqual(self.counted(receiver, "RX"), sum(p.word(0, TAKEN) for p in memories))
        self.assertEqual(self.counted(sender, "TX"), sum(p.word(1, SENT) for p in memories))
        self.assert_counts_never_go_back(receiver, "RX")
        self.assert_counts_never_go_back(sender, "TX")

    def test_memory_goes_and_comes_and_all_that_is_sent_after_it_arrives(self):
        receiver, sender = self.ends()
        memories = [self.a]
        for _ in range(4):
            links = [program.links() for program in (receiver, sender)]
            self.owner.drop(memories[-1])
            self.assertEqual((memories[-1].word(0, STATE), memories[-1].word(1, STATE)), (0, 0))
            for program, before in zip((receiver, sender), links):
                until("the link is down", lambda: program.links() == before + 1)
            memories.append(Port("a"))
            self.owner.driver("a/guest").give(memories[-1])
            # Some of them wait before the other end is there.
            until("frames wait", lambda: memories[-1].word(1, SENT) > 1000)
            self.owner.driver("a/host").give(memories[-1])
            for program, before in zip((receiver, sender), links):
                until("the link is up", lambda: program.links() == before + 2)
            self.flows(memories[-1], 0, TAKEN, 10_000)
        # The same memory once more: nothing of it is counted twice.
        self.owner.drop(memories[-1])
        self.owner.give(memories[-1])
        self.flows(memories[-1], 0, TAKEN, 10_000)
        self.assert_all_came(receiver, sender, memories)

    def test_memory_of_a_switch_goes_and_comes(self):
        switch = self.switch()
        receiver = self.program("b/guest", "rxonly")
        until("the receiver is there", lambda: self.b.word(1, STATE) == 1)
        sender = self.program("a/guest", "txonly")
        self.flows(self.b, 1, TAKEN, 10_000)
        memories = {"a": [self.a], "b": [self.b]}

        def state(name):
            return switch.vsctl("get", "Interface", name, "link_state").strip()
        for name, number, way in (("a", 1, "taken"), ("b", 2, "sent")):
            until("the switch sees that it is up", lambda: state(f"p{name}") == "up")
            self.owner.drop(memories[name][-1])
            until("the switch sees that it is down", lambda: state(f"p{name}") == "down")
            counted = switch.counts(number)[way]
            memories[name].append(Port(name))
            self.owner.give(memories[name][-1])
            until("the switch sees that it is up", lambda: state(f"p{name}") == "up")
            self.flows(memories["b"][-1], 1, TAKEN, 10_000)
            self.assertGreaterEqual(switch.counts(number)[way], counted)
        sender.stop()
        a, b = memories["a"][-1], memories["b"][-1]
        until("the switch has taken all", lambda: a.word(0, TAKEN) == a.word(1, SENT))
        until("the receiver has taken all", lambda: b.word(1, TAKEN) == b.word(0, SENT))
        taken, sent = (sum(p.word(0, word) for p in memories[name]) for name, word in (("a", TAKEN), ("b", SENT)))
        until("the switch says so", lambda: switch.counts(1)["taken"] == taken, 10)
        until("the switch says so", lambda: switch.counts(2)["sent"] == sent, 10)
        receiver.stop()
        self.assertEqual(self.counted(receiver, "RX"), sum(p.word(1, TAKEN) for p in memories["b"]))

    def test_frames_go_on_while_the_owner_is_away(self):
        receiver, sender = self.ends()
        links = receiver.links(), sender.links()
        open_before = self.descriptors(receiver)
        self.owner.die()
        for program in (receiver, sender):
            program.until_it_says("is lost, and is tried again")
        self.flows(self.a, 0, TAKEN, 100_000)
        # Long enough for several tries, which are not told.
        time.sleep(3)
        self.flows(self.a, 0, TAKEN, 100_000)
        owner = self.owner = Owner(self.socket, [self.a])
        for end, program in (("a/host", receiver), ("a/guest", sender)):
            self.assertEqual(owner.driver(end).handle, self.a.handle)
            program.until_it_says("ports.sock is there")
            self.assertEqual(program.text.count("is lost"), 1)
            self.assertEqual(program.text.count("ports.sock is there"), 1)
        self.flows(self.a, 0, TAKEN, 100_000)
        # It was never down, and no descriptor of the same memory was kept.
        self.assertEqual((receiver.links(), sender.links()), links)
        self.assertEqual((self.a.word(0, STATE), self.a.word(1, STATE)), (1, 1))
        self.assertEqual(self.descriptors(receiver), open_before)
        # The new owner can take the memory back, and give another one.
        other = Port("a")
        self.owner.drop(self.a)
        self.owner.give(other)
        self.flows(other, 0, TAKEN, 10_000)
        self.assert_all_came(receiver, sender, [self.a, other])

    def test_memory_that_was_lost_with_its_owner_is_let_go_of_for_another(self):
        receiver, sender = self.ends()
        self.owner.die()
        other = Port("a")
        self.owner = Owner(self.socket, [other])
        for end in ("a/host", "a/guest"):
            driver = self.owner.driver(end)
            self.assertEqual(driver.handle, self.a.handle)
            driver.lets_go(self.a.handle)
        self.flows(other, 0, TAKEN, 10_000)
        self.assert_all_came(receiver, sender, [self.a, other])

    def test_a_port_that_is_removed_is_asked_for_again_and_comes_back(self):
        receiver, _ = self.ends()
        self.owner.drop(self.a)
        self.owner.remove("a")
        receiver.until_it_says("the port is refused: the port was removed")
        asked = self.owner.asked
        # Both ends, and the first one of them twice.
        until("it asks again and again", lambda: self.owner.asked >= asked + 4)
        self.assertEqual(receiver.text.count("there is no such port"), 1)
        self.assertEqual(receiver.text.count("refused"), 2)
        other = Port("a")
        self.owner.ports["a"] = other
        self.flows(other, 0, TAKEN, 10_000)
        self.assertTrue(receiver.is_alive())

    def test_a_switch_starts_before_the_owner(self):
        self.owner.die()
        switch = self.switch()
        with open(f"{self.folder.name}/vswitchd.log", encoding="utf-8") as log:
            self.assertEqual(log.read().count("until the host gives the port out, its link is down"), 2)
        self.assertEqual(switch.vsctl("get", "Interface", "pa", "link_state").strip(), "down")
        # Without memory it can do all that it does with memory.
        switch.vsctl("set", "Interface", "pa", "mtu_request=2000")
        switch.ofctl("mod-port", "br0", "pa", "down")
        switch.ofctl("mod-port", "br0", "pa", "up")
        self.assertEqual(switch.counts(1), {"taken": 0, "sent": 0})
        self.owner = Owner(self.socket, self.ports)
        until("the switch is there", lambda: self.a.word(0, STATE) == 1 and self.b.word(0, STATE) == 1)
        receiver = self.program("b/guest", "rxonly")
        until("the receiver is there", lambda: self.b.word(1, STATE) == 1)
        self.program("a/guest", "txonly")
        self.flows(self.b, 1, TAKEN, 10_000)
        until("the switch says so", lambda: switch.vsctl("get", "Interface", "pa", "link_state").strip() == "up")
        receiver.stop()

    def test_a_peer_that_sleeps_is_rung_and_one_that_is_awake_is_not(self):
        bell, rung = os.eventfd(0, os.EFD_NONBLOCK), 0

        def rings():
            """How often it rang since the bell is there."""
            nonlocal rung
            try:
                rung += os.eventfd_read(bell)
            except BlockingIOError:
                pass
            return rung

        def greet(driver):
            driver.welcome()
            driver.give(self.a, bell)
        self.owner.greet = greet
        program = self.program("a/host", "io", "--interactive")
        program.until_it_says("testpmd> ")
        until("the peer is told that there is an end", lambda: self.a.word(0, STATE) == 1 and rings() > 0)
        # Before a command is taken, all of the start is over.
        program.say("set link-down port 0")
        until("the peer is told", lambda: self.a.word(0, STATE) == 0)
        program.say("set link-up port 0")
        until("the peer is told", lambda: self.a.word(0, STATE) == 1)

        def burst():
            before = self.a.word(0, SENT)
            program.say("start tx_first 1")
            until("a burst comes", lambda: self.a.word(0, SENT) == before + BURST)
            program.say("stop")
        # A position that is far away is no sleep. After a command, those before it have rung.
        self.a.set_word(1, WAKE, 1 << 40)
        burst()
        expected = rings()
        # Who was rung once is taken for awake.
        for asleep in (True, False, False, True, False, True):
            if asleep:
                self.a.set_word(1, WAKE, self.a.word(0, HEAD))
            burst()
            expected += asleep
            until("a peer that sleeps is rung", lambda: rings() >= expected)
            self.assertEqual(rings(), expected)
        # It is rung after a burst, and so before the next command: none comes late.
        program.say("set link-down port 0")
        until("the peer is told", lambda: self.a.word(0, STATE) == 0)
        until("the peer is told", lambda: rings() > expected)
        self.assertEqual(rings(), expected + 1)
        self.owner.drop(self.a)
        until("the peer is told", lambda: rings() > expected + 1)
        self.assertEqual(rings(), expected + 2)
        self.assertEqual(self.a.news(), rings(), "each ring is counted before")
        program.stop()
        os.close(bell)

    def test_a_bell_that_others_make_wait_holds_nobody(self):
        bells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(5)]

        def greet(driver):
            driver.welcome()
            driver.give(self.a, bells[0])
        self.owner.greet = greet
        program = self.program("a/host", "txonly")
        until("frames come", lambda: self.a.word(0, SENT) > 0)
        driver = self.owner.driver("a/host")
        for bell in bells[:4]:
            # As the process of a VM could: it is full, and a write to it waits.
            step = 1 << 63
            while step:
                try:
                    os.eventfd_write(bell, step)
                except BlockingIOError:
                    step >>= 1
            os.set_blocking(bell, True)
            before = self.a.news()
            until("the driver rings on", lambda: self.sleeps(self.a) and self.a.news() > before + 5)
            driver.drop(self.a.handle)
            self.a = Port("a")
            driver.give(self.a, bells[bells.index(bell) + 1])
        # So many threads wait now that this device gets no more.
        driver.lets_go(self.a.handle)
        program.stop()
        for bell in bells:
            os.close(bell)

    def sleeps(self, port):
        """The guest asks to be rung at the next frame, and takes what there is."""
        port.set_word(1, WAKE, port.word(0, HEAD))
        port.set_word(1, TAIL, port.word(0, HEAD))
        return True

    def storm(self, memories, seconds):
        """Takes back and gives as fast as it goes, each end by itself, then without a pause; what is there last."""
        swaps, is_over = [0, 0], threading.Event()

        def swap(number, driver):
            driver.drop(self.a.handle)
            while not is_over.is_set():
                port = memories[swaps[number] % len(memories)]
                driver.give(port)
                driver.drop(port.handle)
                swaps[number] += 1
        drivers = [self.owner.driver(end) for end in ("a/host", "a/guest")]
        swapping = [threading.Thread(target=swap, args=each) for each in enumerate(drivers)]
        for thread in swapping:
            thread.start()
        time.sleep(seconds)
        is_over.set()
        for thread in swapping:
            thread.join()
        self.assertGreater(min(swaps), 500)
        # Much memory in a row: the driver lets go of each by itself.
        for driver in drivers:
            for number in range(600):
                last = memories[number % len(memories)]
                driver.give(last)
            driver.drop(0x1234)
            self.assertIs(driver, self.owner.driver(driver.end))
        return last

    def test_memory_goes_and_comes_at_a_high_rate_while_both_ends_poll(self):
        receiver, sender = self.ends()
        open_before = self.descriptors(receiver)
        memories = [self.a, Port("a"), Port("a")]
        last = self.storm(memories, 5)
        self.flows(last, 0, TAKEN, 10_000)
        self.assertEqual(self.descriptors(receiver), open_before)
        memories.remove(last)
        self.assert_all_came(receiver, sender, memories + [last])

    def test_memory_of_a_switch_goes_and_comes_at_a_high_rate(self):
        switch = self.switch()
        receiver = self.program("b/guest", "rxonly")
        until("the receiver is there", lambda: self.b.word(1, STATE) == 1)
        sender = self.program("a/guest", "txonly")
        self.flows(self.b, 1, TAKEN, 10_000)
        memories = [self.a, Port("a"), Port("a")]
        last = self.storm(memories, 3)
        self.flows(self.b, 1, TAKEN, 10_000)
        sender.stop()
        until("the switch has taken all", lambda: last.word(0, TAKEN) == last.word(1, SENT))
        taken = sum(port.word(0, TAKEN) for port in memories)
        until("the switch says so", lambda: switch.counts(1)["taken"] == taken, 10)
        self.assertTrue(switch.is_alive())
        receiver.stop()
