import java.io.FileInputStream;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
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
import quickfix.field.HandlInst;
import quickfix.field.MsgType;
import quickfix.field.NewSeqNo;
import quickfix.field.OrdType;
import quickfix.field.OrderQty;
import quickfix.field.ResetSeqNumFlag;
import quickfix.field.Side;
import quickfix.field.Symbol;
import quickfix.field.TransactTime;
import quickfix.fix44.NewOrderSingle;
import quickfix.fix44.SequenceReset;

/**
 * Initiator CFG: the initiator of interop. Orders; orders while a proxy discards the answers and cuts the
 * connection; orders after a SequenceReset; orders after a Logon that resets. Prints a line for each step, "cut" when the
 * connection is to be cut, and ends with 0 if every order was filled.
 */
final class Initiator extends ApplicationAdapter {
    private static final int ORDERS = 10;
    private static final long WITHIN_S = 20;

    private final Set<String> filled = ConcurrentHashMap.newKeySet();
    private volatile SessionID session;
    private volatile int logons;
    /** The next Logon is to reset both sequence numbers. */
    private volatile boolean isReset;
    private int sent;

    public static void main(String[] arguments) throws Exception {
        Initiator initiator = new Initiator();
        SessionSettings settings = new SessionSettings(new FileInputStream(arguments[0]));
        SocketInitiator connector = new SocketInitiator(
                initiator, new MemoryStoreFactory(), settings, new ScreenLogFactory(settings), new DefaultMessageFactory());
        connector.start();
        boolean good = initiator.steps();
        connector.stop();
        System.exit(good ? 0 : 1);
    }

    private boolean steps() throws Exception {
        if (!step("logon", () -> logons == 1)) {
            return false;
        }
        send();
        if (!step("orders", this::allFilled)) {
            return false;
        }
        System.out.println("cut");
        Thread.sleep(500);
        send();
        if (!step("reconnect", () -> logons == 2) || !step("resend after a cut connection", this::allFilled)) {
            return false;
        }
        Session own = Session.lookupSession(session);
        int next = own.getExpectedSenderNum() + 25;
        SequenceReset reset = new SequenceReset(new NewSeqNo(next));
        own.send(reset);
        own.setNextSenderMsgSeqNum(next);
        send();
        if (!step("sequence reset", this::allFilled)) {
            return false;
        }
        isReset = true;
        own.reset();
        if (!step("logon with reset", () -> logons == 3 && own.isLoggedOn())) {
            return false;
        }
        send();
        return step("orders after reset", this::allFilled) && own.getExpectedSenderNum() < 20;
    }

    private boolean allFilled() {
        return filled.size() == sent;
    }

    private static boolean step(String name, BooleanSupplier done) throws InterruptedException {
        for (long i = 0; i < WITHIN_S * 100; i++) {
            if (done.getAsBoolean()) {
                System.out.println("step " + name + ": passed");
                return true;
            }
            TimeUnit.MILLISECONDS.sleep(10);
        }
        System.out.println("step " + name + ": FAILED");
        return false;
    }

    private void send() throws Exception {
        for (int i = 0; i < ORDERS; i++) {
            sent++;
            NewOrderSingle order = new NewOrderSingle(
                    new ClOrdID("J" + sent),
                    new Side(Side.BUY),
                    new TransactTime(LocalDateTime.now(ZoneOffset.UTC)),
                    new OrdType(OrdType.MARKET));
            order.set(new HandlInst('1'));
            order.set(new Symbol("EURUSD"));
            order.set(new OrderQty(100));
            Session.sendToTarget(order, session);
        }
    }

    @Override
    public void onLogon(SessionID session) {
        this.session = session;
        logons++;
    }

    @Override
    public void toAdmin(Message message, SessionID session) {
        try {
            if (isReset && message.getHeader().getString(MsgType.FIELD).equals(MsgType.LOGON)) {
                isReset = false;
                message.setBoolean(ResetSeqNumFlag.FIELD, true);
            }
        } catch (FieldNotFound impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    @Override
    public void fromApp(Message report, SessionID session) throws FieldNotFound {
        if (report.getChar(ExecType.FIELD) == ExecType.TRADE && !filled.add(report.getString(ClOrdID.FIELD))) {
            System.out.println("filled twice: " + report);
        }
    }
}
