import mmap
from multiprocessing import shared_memory

block = shared_memory.SharedMemory(create=True, size=1 << 20)
again = shared_memory.SharedMemory(name=block.name)
block.buf[:5] = b"hello"
assert bytes(again.buf[:5]) == b"hello"
again.close()
block.close()
block.unlink()
anonymous = mmap.mmap(-1, 1 << 20)
anonymous[:3] = b"abc"
with open("mapped", "wb+") as file:
    file.truncate(8192)
    mapped = mmap.mmap(file.fileno(), 8192)
    mapped[4096:4099] = b"xyz"
    mapped.flush()
with open("mapped", "rb") as file:
    assert file.read()[4096:4099] == b"xyz"
print("works")
