import signal
import subprocess

assert subprocess.run(["tr", "a-z", "A-Z"], input="abc", capture_output=True, text=True).stdout == "ABC"
assert subprocess.run("printf 'b\na\n' | sort | head -1", shell=True, capture_output=True).stdout == b"a\n"
assert subprocess.run(["sh", "-c", "exit 3"]).returncode == 3
sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
sleeper.terminate()
assert sleeper.wait(10) == -signal.SIGTERM
try:
    subprocess.run(["sleep", "60"], timeout=0.1)
except subprocess.TimeoutExpired:
    print("works")
