import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;

/**
 * Acceptor HOST PORT: one thread that never sleeps, over non-blocking channels, as Philadelphia's own examples do. No store:
 * Philadelphia has none.
 */
final class Acceptor {
    /** Iterations between two checks for a new connection and of the clock. */
    private static final int TURNS = 1000;

    private Acceptor() {}

    public static void main(String[] arguments) throws IOException {
        ServerSocketChannel server = ServerSocketChannel.open();
        server.bind(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])));
        server.configureBlocking(false);
        System.out.println("ready");
        List<Exchange> sessions = new ArrayList<>();
        for (int turn = 0;; turn++) {
            if (turn % TURNS == 0) {
                accept(server, sessions);
            }
            for (int i = 0; i < sessions.size(); i++) {
                if (!sessions.get(i).poll()) {
                    sessions.remove(i--);
                }
            }
        }
    }

    private static void accept(ServerSocketChannel server, List<Exchange> sessions) throws IOException {
        SocketChannel channel = server.accept();
        if (channel == null) {
            return;
        }
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        channel.configureBlocking(false);
        sessions.add(new Exchange(channel));
    }
}
