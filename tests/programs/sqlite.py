import sqlite3
import threading

writer = sqlite3.connect("data.db")
assert writer.execute("pragma journal_mode = wal").fetchone() == ("wal",)
writer.execute("create table numbers (number integer)")
writer.commit()
reader = sqlite3.connect("data.db")
writer.execute("begin")
writer.executemany("insert into numbers values (?)", [(number,) for number in range(1000)])
assert reader.execute("select count(*) from numbers").fetchone() == (0,)
writer.commit()
assert reader.execute("select sum(number) from numbers").fetchone() == (499500,)


def insert(number):
    own = sqlite3.connect("data.db", timeout=20)
    own.execute("insert into numbers values (?)", (number,))
    own.commit()
    own.close()


threads = [threading.Thread(target=insert, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert reader.execute("select count(*) from numbers").fetchone() == (1008,)
assert reader.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
print("works")
