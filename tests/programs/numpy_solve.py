import numpy

matrix = numpy.random.default_rng(1).random((400, 400))
solved = numpy.linalg.solve(matrix, matrix @ numpy.ones(400))
assert numpy.allclose(solved, 1)
mapped = numpy.memmap("array", dtype="float64", mode="w+", shape=(1000, 100))
mapped[:] = 1
mapped.flush()
assert numpy.memmap("array", dtype="float64", mode="r", shape=(1000, 100)).sum() == 100_000
print("works")
