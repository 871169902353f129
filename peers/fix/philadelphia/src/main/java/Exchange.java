import static com.paritytrading.philadelphia.fix44.FIX44MsgTypes.ExecutionReport;
import static com.paritytrading.philadelphia.fix44.FIX44MsgTypes.NewOrderSingle;
import static com.paritytrading.philadelphia.fix44.FIX44Tags.*;

import com.paritytrading.philadelphia.FIXConfig;
import com.paritytrading.philadelphia.FIXConnection;
import com.paritytrading.philadelphia.FIXConnectionStatusListener;
import com.paritytrading.philadelphia.FIXMessage;
import com.paritytrading.philadelphia.FIXMessageListener;
import com.paritytrading.philadelphia.FIXValue;
import com.paritytrading.philadelphia.FIXVersion;
import java.io.IOException;
import java.nio.channels.SocketChannel;

/** One session: acknowledges and fills every NewOrderSingle. Its messages are made once and patched, without garbage. */
final class Exchange implements FIXMessageListener, FIXConnectionStatusListener {
    private static final FIXConfig CONFIG = new FIXConfig.Builder()
            .setVersion(FIXVersion.FIX_4_4)
            .setSenderCompID("EXCHANGE")
            .setCheckSumEnabled(false)
            .build();

    private static long orders;

    private final FIXConnection connection;
    private Report ack;
    private Report fill;
    private boolean open = true;

    Exchange(SocketChannel channel) {
        connection = new FIXConnection(channel, CONFIG, this, this, System.currentTimeMillis());
    }

    /** Takes in what has come; false once the session is over. */
    boolean poll() {
        try {
            connection.setCurrentTimeMillis(System.currentTimeMillis());
            if (connection.receive() < 0) {
                connection.close();
                return false;
            }
            return open;
        } catch (IOException gone) {
            return false;
        }
    }

    @Override
    public void message(FIXMessage message) throws IOException {
        FIXValue type = message.getMsgType();
        if (type.length() != 1 || type.asChar() != NewOrderSingle) {
            return;
        }
        orders++;
        ack.send(message);
        fill.send(message);
    }

    /** One of the two reports. */
    private final class Report {
        private final FIXMessage message = connection.create();
        private final FIXValue orderId;
        private final FIXValue clOrdId;
        private final FIXValue execId;
        private final FIXValue symbol;
        private final FIXValue side;

        Report(char execType, char status, int leaves, int filled) {
            connection.prepare(message, ExecutionReport);
            orderId = message.addField(OrderID);
            clOrdId = message.addField(ClOrdID);
            execId = message.addField(ExecID);
            message.addField(ExecType).setChar(execType);
            message.addField(OrdStatus).setChar(status);
            symbol = message.addField(Symbol);
            side = message.addField(Side);
            message.addField(LeavesQty).setInt(leaves);
            message.addField(CumQty).setInt(filled);
            message.addField(AvgPx).setFloat(filled == 0 ? 0 : 1.25, 2);
            if (filled != 0) {
                message.addField(LastQty).setInt(filled);
                message.addField(LastPx).setFloat(1.25, 2);
            }
        }

        void send(FIXMessage order) throws IOException {
            orderId.setInt(orders);
            execId.setInt(orders);
            clOrdId.set(order.valueOf(ClOrdID));
            symbol.set(order.valueOf(Symbol));
            side.set(order.valueOf(Side));
            connection.update(message);
            connection.send(message);
        }
    }

    @Override
    public void logon(FIXConnection connection, FIXMessage message) throws IOException {
        connection.setTargetCompID(message.valueOf(SenderCompID).asString().toString());
        connection.sendLogon(true);
        ack = new Report('0', '0', 100, 0);
        fill = new Report('F', '2', 0, 100);
    }

    @Override
    public void logout(FIXConnection connection, FIXMessage message) throws IOException {
        connection.sendLogout();
        connection.close();
        open = false;
    }

    @Override
    public void close(FIXConnection connection, String message) throws IOException {
        connection.close();
        open = false;
    }

    @Override
    public void sequenceReset(FIXConnection connection) {}

    @Override
    public void tooLowMsgSeqNum(FIXConnection connection, long received, long expected) throws IOException {
        close(connection, "MsgSeqNum too low");
    }

    @Override
    public void reject(FIXConnection connection, FIXMessage message) {}
}
