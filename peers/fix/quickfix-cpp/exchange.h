// Acknowledges and fills every NewOrderSingle.
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <quickfix/Application.h>
#include <quickfix/Session.h>
#include <quickfix/fix44/ExecutionReport.h>

#include <atomic>
#include <string>

class Exchange : public FIX::NullApplication {
public:
    void fromApp(const FIX::Message &order, const FIX::SessionID &session)
        throw(FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue, FIX::UnsupportedMessageType) override {
        if (order.getHeader().getField(FIX::FIELD::MsgType) != FIX::MsgType_NewOrderSingle)
            return;
        const std::string number = std::to_string(++orders_);
        const double quantity = std::stod(order.getField(FIX::FIELD::OrderQty));
        FIX44::ExecutionReport ack = report(order, number, FIX::ExecType_NEW, FIX::OrdStatus_NEW, quantity, 0);
        FIX::Session::sendToTarget(ack, session);
        FIX44::ExecutionReport fill = report(order, number, FIX::ExecType_TRADE, FIX::OrdStatus_FILLED, 0, quantity);
        fill.set(FIX::LastQty(quantity));
        fill.set(FIX::LastPx(1.25));
        FIX::Session::sendToTarget(fill, session);
    }

private:
    static FIX44::ExecutionReport report(const FIX::Message &order, const std::string &number, char type, char status,
                                         double leaves, double filled) {
        FIX44::ExecutionReport report(FIX::OrderID(number), FIX::ExecID(number + type), FIX::ExecType(type),
                                      FIX::OrdStatus(status), FIX::Side(order.getField(FIX::FIELD::Side)[0]),
                                      FIX::LeavesQty(leaves), FIX::CumQty(filled),
                                      FIX::AvgPx(filled == 0 ? 0 : 1.25));
        report.set(FIX::ClOrdID(order.getField(FIX::FIELD::ClOrdID)));
        report.set(FIX::Symbol(order.getField(FIX::FIELD::Symbol)));
        return report;
    }

    std::atomic<long> orders_{0};
};

#endif
