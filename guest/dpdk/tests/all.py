"""All tests of the DPDK driver: tests/ports.sh [CLASS[.TEST]], as root."""

import unittest

from test_links import Links
from test_memory import Memory
from test_owner import Liars
from test_ports import Ports

__all__ = ["Liars", "Links", "Memory", "Ports"]

if __name__ == "__main__":
    unittest.main(verbosity=2)
