import java.net.*;
import java.nio.file.*;
import java.util.concurrent.*;

public class Threads {
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(16);
        int sum = 0;
        Callable<Integer> one = () -> 1;
        for (Future<Integer> part : pool.invokeAll(java.util.Collections.nCopies(100, one))) sum += part.get();
        pool.shutdown();
        if (sum != 100) throw new AssertionError(sum);
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Socket client = new Socket(server.getInetAddress(), server.getLocalPort());
            server.accept().getOutputStream().write(7);
            if (client.getInputStream().read() != 7) throw new AssertionError("loopback");
        }
        if (new ProcessBuilder("sh", "-c", "exit 3").start().waitFor() != 3) throw new AssertionError("child");
        Files.writeString(Path.of("file"), "text");
        System.out.println("works");
    }
}
