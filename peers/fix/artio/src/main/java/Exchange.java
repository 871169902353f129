import static io.aeron.logbuffer.ControlledFragmentHandler.Action.ABORT;
import static io.aeron.logbuffer.ControlledFragmentHandler.Action.CONTINUE;

import io.aeron.logbuffer.ControlledFragmentHandler.Action;
import org.agrona.DirectBuffer;
import uk.co.real_logic.artio.Pressure;
import uk.co.real_logic.artio.builder.ExecutionReportEncoder;
import uk.co.real_logic.artio.decoder.NewOrderSingleDecoder;
import uk.co.real_logic.artio.library.OnMessageInfo;
import uk.co.real_logic.artio.library.SessionHandler;
import uk.co.real_logic.artio.messages.DisconnectReason;
import uk.co.real_logic.artio.session.Session;
import uk.co.real_logic.artio.util.MutableAsciiBuffer;

/** One session: acknowledges and fills every NewOrderSingle. Its codecs are made once. */
final class Exchange implements SessionHandler {
    private static final long PRICE = 125;
    private static final int PRICE_SCALE = 2;

    private static long orders;

    private final MutableAsciiBuffer text = new MutableAsciiBuffer();
    private final MutableAsciiBuffer number = new MutableAsciiBuffer(new byte[20]);
    private final NewOrderSingleDecoder order = new NewOrderSingleDecoder();
    private final ExecutionReportEncoder report = new ExecutionReportEncoder();
    /** An order whose acknowledgement has left and whose fill has found no room comes again. */
    private boolean isAcknowledged;

    @Override
    public Action onMessage(
            DirectBuffer buffer,
            int offset,
            int length,
            int libraryId,
            Session session,
            int sequenceIndex,
            long messageType,
            long timestampNs,
            long position,
            OnMessageInfo information) {
        if (messageType != NewOrderSingleDecoder.MESSAGE_TYPE) {
            return CONTINUE;
        }
        text.wrap(buffer, offset, length);
        order.reset();
        order.decode(text, 0, length);
        if (!isAcknowledged) {
            orders++;
            prepare('0', '0');
            report.leavesQty(order.orderQty()).cumQty(0, 0).avgPx(0, 0);
            if (Pressure.isBackPressured(session.trySend(report))) {
                return ABORT;
            }
            isAcknowledged = true;
        }
        prepare('F', '2');
        report.leavesQty(0, 0).cumQty(order.orderQty()).avgPx(PRICE, PRICE_SCALE);
        report.lastQty(order.orderQty()).lastPx(PRICE, PRICE_SCALE);
        if (Pressure.isBackPressured(session.trySend(report))) {
            return ABORT;
        }
        isAcknowledged = false;
        return CONTINUE;
    }

    private void prepare(char execType, char status) {
        int digits = number.putNaturalLongAscii(0, orders);
        report.reset();
        report.orderID(number, 0, digits).execID(number, 0, digits);
        report.execType(execType).ordStatus(status).side(order.side());
        report.symbol(order.symbol(), 0, order.symbolLength());
        report.clOrdID(order.clOrdID(), 0, order.clOrdIDLength());
    }

    @Override
    public void onTimeout(int libraryId, Session session) {}

    @Override
    public void onSlowStatus(int libraryId, Session session, boolean hasBecomeSlow) {}

    @Override
    public Action onDisconnect(int libraryId, Session session, DisconnectReason reason) {
        return CONTINUE;
    }

    @Override
    public void onSessionStart(Session session) {}
}
