"""A stock Open vSwitch with DPDK in a folder of its own, and testpmd."""

import os
import re
import signal
import subprocess
import threading
import time

POOL = ["--no-huge", "--no-pci", "--no-telemetry"]


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def until(what, look, seconds=30, pause=0.05):
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(pause)


class Switch:
    def __init__(self, programs, folder, driver):
        self.programs, self.folder, self.driver = programs, folder, driver
        self.environment = dict(os.environ, OVS_RUNDIR=folder, OVS_LOGDIR=folder, OVS_DBDIR=folder)
        self.daemon = None
        self.sanitized = {}
        if "VFUN_SANITIZED_DRIVER" in os.environ:
            driver = os.environ["VFUN_SANITIZED_DRIVER"]
            # The sanitizer's library comes first in a process that loads an instrumented driver.
            library = run("gcc", "-print-file-name=libasan.so").strip()
            self.sanitized = {"LD_PRELOAD": os.path.realpath(library), "ASAN_OPTIONS": "detect_leaks=0"}
        database = f"{folder}/conf.db"
        self.tool("ovsdb-tool", "create", database, f"{programs}/vswitch.ovsschema")
        self.database = subprocess.Popen(
            [f"{programs}/ovsdb-server", database, f"--remote=punix:{folder}/db.sock",
             f"--unixctl={folder}/db.ctl", f"--log-file={folder}/db.log"],
            env=self.environment, stderr=subprocess.DEVNULL)
        until("the database listens", lambda: os.path.exists(f"{folder}/db.sock"))
        self.vsctl("--no-wait", "init")
        extra = " ".join(POOL + ["-m", "512", "--legacy-mem", "-d", f"{programs}/drivers", "-d", driver])
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true",
                   f"other_config:dpdk-extra={extra}", "other_config:pmd-maxsleep=100")

    def tool(self, name, *arguments):
        return run(f"{self.programs}/{name}", *arguments, env=self.environment)

    def vsctl(self, *arguments):
        return self.tool("ovs-vsctl", f"--db=unix:{self.folder}/db.sock", "--timeout=40", *arguments)

    def ofctl(self, command, *arguments):
        return self.tool("ovs-ofctl", command, *arguments)

    def start(self):
        with open(f"{self.folder}/vswitchd.err", "w") as errors:
            self.daemon = subprocess.Popen(
                [f"{self.programs}/ovs-vswitchd", f"unix:{self.folder}/db.sock",
                 f"--unixctl={self.folder}/vswitchd.ctl", f"--log-file={self.folder}/vswitchd.log"],
                env=self.environment | self.sanitized, stderr=errors)
        self.vsctl("get", "Open_vSwitch", ".", "dpdk_version")
        until("DPDK is there", lambda: "true" in self.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized"))

    def until_it_takes_rules(self):
        def listens():
            try:
                self.ofctl("show", "br0")
            except AssertionError:
                return False
            return True
        until("the bridge takes rules", listens)

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()

    def is_alive(self):
        return self.daemon.poll() is None

    def complaints(self):
        with open(f"{self.folder}/vswitchd.err") as errors:
            return errors.read()

    def close(self):
        for process in (self.daemon, self.database):
            if process and process.poll() is None:
                process.kill()
                process.wait()

    def add(self, name, number, arguments):
        self.vsctl("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdk",
                   f"options:dpdk-devargs=net_vfun_{name},{arguments}", f"ofport_request={number}")
        error = self.vsctl("get", "Interface", name, "error").strip()
        if error not in ("[]", '""'):
            raise AssertionError(f"{name}: {error}")

    def counts(self, number):
        """What `ovs-ofctl dump-ports` says of a port."""
        text = self.ofctl("dump-ports", "br0", str(number))
        numbers = re.search(r"rx pkts=(\d+).*?tx pkts=(\d+)", text, re.S)
        return {"taken": int(numbers[1]), "sent": int(numbers[2])}


class Testpmd:
    """A program of DPDK that nobody here wrote."""

    def __init__(self, driver, name, arguments, mode, more=(), devices=()):
        command = ["dpdk-testpmd", *POOL, "-m", "128", "-d", driver, f"--file-prefix={name}",
                   "-l", "0,1", "--vdev", arguments, *(word for each in devices for word in ("--vdev", each)), "--",
                   "--total-num-mbufs=4096", "--mbcache=256", "--burst=32", f"--forward-mode={mode}",
                   *more]
        if "--interactive" not in more:
            command.append("--stats-period=1")
        self.text = ""
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        stdin=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while some := os.read(self.process.stdout.fileno(), 65536):
            self.text += some.decode(errors="replace")

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def until_it_says(self, what, times=1, seconds=30):
        until(f"testpmd says {what!r} {times} times", lambda: self.text.count(what) >= times, seconds)

    def links(self):
        """How often it was told that the link changed."""
        return self.text.count("link state change event")

    def is_alive(self):
        return self.process.poll() is None

    def stop(self):
        """Ends it as a user does; what it said."""
        if self.is_alive():
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()
        return self.text
