"""Becomes the parent of a command to which the kernel's Landlock is of an older version: what it asks for by version is
then all that it gets. Its calls are stopped by a filter of seccomp(2) and answered by ptrace(2). Registers of x86-64.
"""
import ctypes, os, signal, struct, sys

CREATE_RULESET, VERSION = 444, 1
LOAD, EQUAL, RETURN, ALLOW, TRACE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FF00000
CONT, POKEUSER, SEIZE, LISTEN = 7, 6, 0x4206, 0x4208
RAX, ORIG_RAX = 80, 120
OPTIONS = 0x02 | 0x04 | 0x08 | 0x80 | 0x100000  # fork, vfork, clone, seccomp; all die with the tracer
ANY_CHILD, EVENT_SECCOMP, EVENT_STOP = 0x40000000, 7, 128

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def load_filter():
    # The version is asked for by a flag, the third argument.
    program = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, CREATE_RULESET), (LOAD, 0, 0, 32), (EQUAL, 0, 1, VERSION),
               (RETURN, 0, 0, TRACE), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.c_void_p(ctypes.addressof(head)), 0, 0)):
        if libc.prctl(*arguments) != 0:
            sys.exit("prctl %d: %s" % (arguments[0], os.strerror(ctypes.get_errno())))


ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.close(go)
    os.read(ready, 1)
    load_filter()
    os.execvp(sys.argv[2], sys.argv[2:])
if libc.ptrace(SEIZE, child, None, OPTIONS) != 0:
    sys.exit("ptrace: " + os.strerror(ctypes.get_errno()))
os.close(go)
while True:
    pid, status = os.waitpid(-1, ANY_CHILD)
    if not os.WIFSTOPPED(status):
        if pid == child:
            break
        continue
    event, number = status >> 16, os.WSTOPSIG(status)
    if event == EVENT_SECCOMP:
        # The call is not made, and this is what it returns.
        libc.ptrace(POKEUSER, pid, ORIG_RAX, ctypes.c_void_p(-1))
        libc.ptrace(POKEUSER, pid, RAX, ctypes.c_void_p(int(sys.argv[1])))
    if event == EVENT_STOP and number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
        libc.ptrace(LISTEN, pid, None, None)
    else:
        libc.ptrace(CONT, pid, None, ctypes.c_void_p(0 if event else number))
if os.WIFSIGNALED(status):
    signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(status))
sys.exit(os.WEXITSTATUS(status))
