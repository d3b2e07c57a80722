import asyncio


async def answer(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def ask(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"number %d\n" % number)
    assert await reader.readline() == b"NUMBER %d\n" % number
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(ask(port, number) for number in range(100)))
    child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await child.communicate(b"x"))[0] == b"x"
    local = await asyncio.start_unix_server(answer, "socket")
    reader, writer = await asyncio.open_unix_connection("socket")
    writer.write(b"local\n")
    assert await reader.readline() == b"LOCAL\n"
    writer.close()
    local.close()
    assert await asyncio.to_thread(sum, range(10)) == 45


asyncio.run(main())
print("works")
