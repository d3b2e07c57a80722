import multiprocessing


def square(number):
    return number * number


def add(counter, queue):
    for _ in range(100):
        with counter.get_lock():
            counter.value += 1
    queue.put("done")


if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(4) as pool:
            assert pool.map(square, range(50)) == [number * number for number in range(50)]
        counter, queue = context.Value("i", 0), context.Queue()
        adders = [context.Process(target=add, args=(counter, queue)) for _ in range(4)]
        for adder in adders:
            adder.start()
        assert [queue.get(timeout=20) for _ in adders] == ["done"] * 4
        for adder in adders:
            adder.join()
        assert counter.value == 400
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        assert dict(shared) == {"a": 1}
    print("works")
