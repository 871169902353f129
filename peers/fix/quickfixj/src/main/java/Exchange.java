import java.util.concurrent.atomic.AtomicLong;
import quickfix.ApplicationAdapter;
import quickfix.FieldNotFound;
import quickfix.Message;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionNotFound;
import quickfix.field.AvgPx;
import quickfix.field.ClOrdID;
import quickfix.field.CumQty;
import quickfix.field.ExecID;
import quickfix.field.ExecType;
import quickfix.field.LastPx;
import quickfix.field.LastQty;
import quickfix.field.LeavesQty;
import quickfix.field.MsgType;
import quickfix.field.OrdStatus;
import quickfix.field.OrderID;
import quickfix.field.OrderQty;
import quickfix.field.Side;
import quickfix.field.Symbol;
import quickfix.fix44.ExecutionReport;

/** Acknowledges and fills every NewOrderSingle. */
final class Exchange extends ApplicationAdapter {
    private static final double PRICE = 1.25;

    private final AtomicLong orders = new AtomicLong();

    @Override
    public void fromApp(Message order, SessionID session) throws FieldNotFound {
        if (!order.getHeader().getString(MsgType.FIELD).equals(MsgType.ORDER_SINGLE)) {
            return;
        }
        long number = orders.incrementAndGet();
        double quantity = order.getDouble(OrderQty.FIELD);
        try {
            Session.sendToTarget(report(order, number, ExecType.NEW, OrdStatus.NEW, quantity, 0), session);
            Session.sendToTarget(report(order, number, ExecType.TRADE, OrdStatus.FILLED, 0, quantity), session);
        } catch (SessionNotFound gone) {
            throw new IllegalStateException(gone);
        }
    }

    private static ExecutionReport report(
            Message order, long number, char type, char status, double leaves, double filled) throws FieldNotFound {
        ExecutionReport report = new ExecutionReport(
                new OrderID(Long.toString(number)),
                new ExecID(number + (type == ExecType.NEW ? "A" : "F")),
                new ExecType(type),
                new OrdStatus(status),
                new Side(order.getChar(Side.FIELD)),
                new LeavesQty(leaves),
                new CumQty(filled),
                new AvgPx(filled == 0 ? 0 : PRICE));
        report.set(new ClOrdID(order.getString(ClOrdID.FIELD)));
        report.set(new Symbol(order.getString(Symbol.FIELD)));
        if (filled != 0) {
            report.set(new LastQty(filled));
            report.set(new LastPx(PRICE));
        }
        return report;
    }
}
