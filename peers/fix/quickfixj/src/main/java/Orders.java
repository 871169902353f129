import java.io.FileInputStream;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import quickfix.ApplicationAdapter;
import quickfix.DefaultMessageFactory;
import quickfix.FieldNotFound;
import quickfix.MemoryStoreFactory;
import quickfix.Message;
import quickfix.ScreenLogFactory;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionSettings;
import quickfix.SocketInitiator;
import quickfix.field.ClOrdID;
import quickfix.field.ExecType;
import quickfix.field.OrdType;
import quickfix.field.OrderQty;
import quickfix.field.Side;
import quickfix.field.Symbol;
import quickfix.field.TransactTime;
import quickfix.fix44.NewOrderSingle;

/**
 * Orders CFG HOST COUNT: logs on, sends that many orders one after the other, each when the one before is filled, and logs out.
 * Prints what came back, and on standard error the median and the 99th percentile of the time from an order to its fill.
 */
final class Orders extends ApplicationAdapter {
    private static final long WITHIN_S = 60;

    private final CountDownLatch logon = new CountDownLatch(1);
    private final CountDownLatch logout = new CountDownLatch(1);
    private final CountDownLatch done = new CountDownLatch(1);
    private final long[] times;
    private SessionID session;
    private long sentAt;
    private int acknowledged;
    private int filled;

    private Orders(int count) {
        times = new long[count];
    }

    public static void main(String[] arguments) throws Exception {
        SessionSettings settings = new SessionSettings(new FileInputStream(arguments[0]));
        settings.setString("SocketConnectHost", arguments[1]);
        Orders orders = new Orders(Integer.parseInt(arguments[2]));
        SocketInitiator initiator = new SocketInitiator(
                orders, new MemoryStoreFactory(), settings, new ScreenLogFactory(false, false, false), new DefaultMessageFactory());
        initiator.start();
        boolean isGood = await("logon", orders.logon);
        orders.send();
        isGood &= await("orders", orders.done);
        Session.lookupSession(orders.session).logout();
        isGood &= await("logout", orders.logout);
        initiator.stop();
        System.out.println(orders.acknowledged + " acknowledged, " + orders.filled + " filled");
        java.util.Arrays.sort(orders.times);
        System.err.println("median of " + orders.filled + " orders: " + orders.percentile(50) + " us, p99 " + orders.percentile(99) + " us");
        System.exit(isGood ? 0 : 1);
    }

    private long percentile(int percent) {
        return times[Math.min(filled * percent / 100, times.length - 1)] / 1000;
    }

    private static boolean await(String name, CountDownLatch latch) throws InterruptedException {
        boolean isGood = latch.await(WITHIN_S, TimeUnit.SECONDS);
        System.out.println(name + (isGood ? "" : ": FAILED"));
        return isGood;
    }

    private void send() throws Exception {
        NewOrderSingle order = new NewOrderSingle(
                new ClOrdID("O" + filled), new Side(Side.BUY), new TransactTime(LocalDateTime.now(ZoneOffset.UTC)), new OrdType(OrdType.MARKET));
        order.set(new Symbol("EURUSD"));
        order.set(new OrderQty(100));
        sentAt = System.nanoTime();
        Session.sendToTarget(order, session);
    }

    @Override
    public void onLogon(SessionID session) {
        this.session = session;
        logon.countDown();
    }

    @Override
    public void onLogout(SessionID session) {
        logout.countDown();
    }

    @Override
    public void fromApp(Message report, SessionID session) throws FieldNotFound {
        if (report.getChar(ExecType.FIELD) != ExecType.TRADE) {
            acknowledged++;
            return;
        }
        times[filled++] = System.nanoTime() - sentAt;
        if (filled == times.length) {
            done.countDown();
            return;
        }
        try {
            send();
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
