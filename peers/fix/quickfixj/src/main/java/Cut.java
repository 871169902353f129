import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/**
 * Cut LISTEN TO: passes connections on to another port of this host. A line "cut" on standard input makes it discard what
 * comes back for a second and then cut the connection, so that answers are lost without either end having a part in it.
 */
final class Cut {
    private static volatile boolean isSwallowing;
    private static volatile Socket client;
    private static volatile Socket server;

    private Cut() {}

    public static void main(String[] arguments) throws IOException {
        Thread control = new Thread(Cut::control);
        control.setDaemon(true);
        control.start();
        ServerSocket listener = new ServerSocket(Integer.parseInt(arguments[0]), 16, InetAddress.getLoopbackAddress());
        System.out.println("ready");
        for (;;) {
            Socket in = listener.accept();
            Socket out;
            try {
                out = new Socket(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[1]));
            } catch (IOException refused) {
                in.close();
                continue;
            }
            client = in;
            server = out;
            new Thread(() -> pass(in, out, false)).start();
            new Thread(() -> pass(out, in, true)).start();
        }
    }

    private static void pass(Socket from, Socket to, boolean isAnswer) {
        byte[] bytes = new byte[65536];
        try (from; to) {
            InputStream stream = from.getInputStream();
            for (int count; (count = stream.read(bytes)) > 0;) {
                if (!isAnswer || !isSwallowing) {
                    to.getOutputStream().write(bytes, 0, count);
                }
            }
        } catch (IOException cut) {
            // Either end has closed.
        }
    }

    private static void control() {
        try {
            for (int letter; (letter = System.in.read()) >= 0;) {
                if (letter == '\n') {
                    isSwallowing = true;
                    Thread.sleep(1000);
                    client.close();
                    server.close();
                    isSwallowing = false;
                    System.out.println("was cut");
                }
            }
        } catch (IOException | InterruptedException gone) {
            // No further command can come.
        }
    }
}
