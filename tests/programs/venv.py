import os
import ssl
import sqlite3
import sys

assert sys.prefix != sys.base_prefix and sys.prefix.endswith("/.v"), sys.prefix
assert ssl.OPENSSL_VERSION and sqlite3.sqlite_version
home = os.path.dirname(sys.prefix)
assert os.listdir(home) == [".v"], os.listdir(home)
print("works")
