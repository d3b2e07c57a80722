import threading

barrier = threading.Barrier(200, timeout=20)
sums = []


def work(number):
    barrier.wait()  # passes only when all of them run at the same time
    sums.append(sum(range(number)))


threads = [threading.Thread(target=work, args=(number,)) for number in range(200)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sum(sums) == sum(sum(range(number)) for number in range(200))
print("works")
