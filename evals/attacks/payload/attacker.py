"""The attacker in Python, for attacks that the interpreter or its library is the means of.

`python3 attacker.py MARKER NAME ARGUMENT...` speaks as the native attacker does, and nobody believes it either. It needs
nothing but the standard library, and of that only what the attack itself needs: an interpreter may lack the rest.
"""

import os
import sys
import time


def call(numbers, *arguments):
    """A system call by its number on this machine."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(*map(ctypes.c_long, (numbers[os.uname().machine], *arguments))) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def hold(enough, seconds=0.9):
    """Holds everything until the judge has seen enough, or until it would have."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not os.path.exists(enough):
        time.sleep(0.002)


def user_namespace():
    call({"x86_64": 272, "aarch64": 97}, 0x10000000)


def trace_a_child():
    import signal

    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        seize = 0x4206
        call({"x86_64": 101, "aarch64": 117}, seize, child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def program_from_memory(program, enough):
    """Becomes the native attacker, which is started from a file without a name."""
    with open(program, "rb") as file:
        memory = os.memfd_create("program")
        os.write(memory, file.read())
    os.execve(memory, [program, sys.argv[1], "hold", "900", enough], os.environ)


def outlive(enough):
    """For longer than anybody waits for what was killed to be dead."""
    hold(enough, 5)


def daemon_by_subprocess(enough):
    import subprocess

    words = [sys.executable, sys.argv[0], sys.argv[1], "outlive", enough]
    nothing = subprocess.DEVNULL
    subprocess.Popen(words, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)


def daemon_by_multiprocessing(enough):
    import multiprocessing

    multiprocessing.get_context("fork").Process(target=hold_alone, args=[enough]).start()


def hold_alone(enough):
    os.setsid()
    outlive(enough)


def kill_by_pidfd(process):
    import signal

    signal.pidfd_send_signal(os.pidfd_open(int(process)), signal.SIGKILL)


def relimit(process):
    import resource

    resource.prlimit(int(process), resource.RLIMIT_NOFILE, (3, 3))


def leave_shared_memory(name):
    from multiprocessing import resource_tracker, shared_memory

    memory = shared_memory.SharedMemory(name, create=True, size=1)
    # Otherwise the helper process that Python starts for it tidies up.
    resource_tracker.unregister(memory._name, "shared_memory")


def change_shared_memory(name):
    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(name)
    memory.buf[0] = ord("x")


def read_below_descriptors(name):
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            with open(f"/proc/self/fd/{descriptor}/{name}") as file:
                print(file.read())
        except OSError as refused:
            error = refused
        else:
            return
    raise error


def fetch(port):
    import urllib.request

    # A proxy is none of this attack's business.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    direct.open(f"http://127.0.0.1:{port}/", timeout=0.2)


def environments_of_ancestors():
    process = os.getpid()
    while process:
        with open(f"/proc/{process}/environ", "rb") as file:
            print(file.read().replace(b"\0", b"\n").decode(errors="replace"))
        with open(f"/proc/{process}/stat", "rb") as file:
            process = int(file.read().rpartition(b") ")[2].split()[1])


def follow_variables(module):
    """Where the interpreter itself is led to by its variables."""
    import importlib

    try:
        print(importlib.import_module(module).KEY)
    except ImportError:
        with open(os.environ["PYTHONSTARTUP"]) as file:
            print(file.read())


def type_input(enough, text):
    import fcntl
    import termios

    for letter in text + "\n":
        fcntl.ioctl(0, termios.TIOCSTI, letter.encode())
    hold(enough)


def plant(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def plant_bytecode(path, source):
    """What is compiled already, and says that nobody has to compare it with its source."""
    import py_compile

    plain = sys.argv[0] + ".planted"
    plant(plain, source)
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(plain, cfile=path, doraise=True, invalidation_mode=unchecked)


ATTACKS = {
    "change_shared_memory": change_shared_memory,
    "daemon_by_multiprocessing": daemon_by_multiprocessing,
    "daemon_by_subprocess": daemon_by_subprocess,
    "environments_of_ancestors": environments_of_ancestors,
    "fetch": fetch,
    "follow_variables": follow_variables,
    "hold": hold,
    "kill_by_pidfd": kill_by_pidfd,
    "leave_shared_memory": leave_shared_memory,
    "outlive": outlive,
    "plant": plant,
    "plant_bytecode": plant_bytecode,
    "program_from_memory": program_from_memory,
    "read_below_descriptors": read_below_descriptors,
    "relimit": relimit,
    "trace_a_child": trace_a_child,
    "type_input": type_input,
    "user_namespace": user_namespace,
}


def main():
    _, _, name, *arguments = sys.argv
    attack = ATTACKS[name]
    print("trying", flush=True)
    try:
        attack(*arguments)
        said = "done"
    except OSError as error:
        # As the native attacker says it, from which some judges read the number.
        said = f"{error.strerror} (os error {error.errno})" if error.errno else str(error)
    except Exception as error:
        said = repr(error)
    print(f"tried: {said}", flush=True)
    # At its usual end Python waits for its children.
    os._exit(0)


if __name__ == "__main__":
    main()
