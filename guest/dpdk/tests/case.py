"""What the tests of the DPDK driver have in common: ports, a switch, and programs."""

import os
import tempfile
import unittest

from memory import Owner, Port
from switch import Switch, Testpmd, until

DRIVER, PROGRAMS = os.environ["VFUN_DPDK_DRIVER"], os.environ["VFUN_OVS_DIR"]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="vfun-ports-")
        self.addCleanup(self.folder.cleanup)
        self.ports = [Port("a"), Port("b"), Port("open", sealed=False)]
        self.a, self.b, _ = self.ports
        self.socket = f"{self.folder.name}/ports.sock"
        self.owner = Owner(self.socket, self.ports)

    def at(self, port):
        return f"socket={self.socket},port={port}"

    def program_with(self, arguments, mode="rxonly", tag="0", more=()):
        program = Testpmd(DRIVER, f"vfun-{os.path.basename(self.folder.name)}-{tag}",
                          f"net_vfun0,{arguments}", mode, more)
        self.addCleanup(program.stop)
        return program

    def program(self, port, mode, *more):
        return self.program_with(self.at(port), mode, port.replace("/", "-"), more)

    def switch(self):
        switch = Switch(PROGRAMS, self.folder.name, DRIVER)
        self.addCleanup(switch.close)
        switch.start()
        switch.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail-mode=secure")
        switch.add("pa", 1, self.at("a/host"))
        switch.add("pb", 2, self.at("b/host"))
        self.rules(switch)
        return switch

    def rules(self, switch):
        switch.until_it_takes_rules()
        switch.ofctl("add-flow", "br0", "in_port=1,actions=output:2")
        switch.ofctl("add-flow", "br0", "in_port=2,actions=output:1")

    def flows(self, port, side, word, frames):
        before = port.word(side, word)
        until(f"{frames} frames of {port.name}", lambda: port.word(side, word) - before > frames)
