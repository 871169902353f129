import java.io.FileInputStream;
import quickfix.DefaultMessageFactory;
import quickfix.FileStoreFactory;
import quickfix.LogFactory;
import quickfix.MemoryStoreFactory;
import quickfix.MessageFactory;
import quickfix.MessageStoreFactory;
import quickfix.NoopStoreFactory;
import quickfix.ScreenLogFactory;
import quickfix.SessionSettings;
import quickfix.SocketAcceptor;
import quickfix.ThreadedSocketAcceptor;

/**
 * Acceptor CFG STORE THREADS: store noop, memory or file; threads one (SocketAcceptor: one for all sessions) or many
 * (ThreadedSocketAcceptor: one for each session). Events are logged, messages are not: the reason why it hangs up stands
 * on standard output.
 */
final class Acceptor {
    private Acceptor() {}

    public static void main(String[] arguments) throws Exception {
        SessionSettings settings = new SessionSettings(new FileInputStream(arguments[0]));
        MessageStoreFactory stores = switch (arguments[1]) {
            case "noop" -> new NoopStoreFactory();
            case "memory" -> new MemoryStoreFactory();
            case "file" -> new FileStoreFactory(settings);
            default -> throw new IllegalArgumentException(arguments[1]);
        };
        MessageFactory messages = new DefaultMessageFactory();
        Exchange exchange = new Exchange();
        LogFactory events = new ScreenLogFactory(false, false, true);
        quickfix.Acceptor acceptor = arguments[2].equals("one")
                ? new SocketAcceptor(exchange, stores, settings, events, messages)
                : new ThreadedSocketAcceptor(exchange, stores, settings, events, messages);
        acceptor.start();
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
