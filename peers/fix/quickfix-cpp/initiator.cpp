// initiator CFG: what interop asks of an initiator; see Initiator.java, which takes the same steps.
#include <quickfix/Application.h>
#include <quickfix/FileLog.h>
#include <quickfix/MessageStore.h>
#include <quickfix/Session.h>
#include <quickfix/SessionSettings.h>
#include <quickfix/ThreadedSSLSocketInitiator.h>
#include <quickfix/ThreadedSocketInitiator.h>
#include <quickfix/fix44/NewOrderSingle.h>
#include <quickfix/fix44/SequenceReset.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

static const int ORDERS = 10;
static const int WITHIN_S = 20;

class Interop : public FIX::NullApplication {
public:
    void onLogon(const FIX::SessionID &session) override {
        std::lock_guard<std::mutex> guard(lock_);
        session_ = session;
        logons_++;
    }

    void toAdmin(FIX::Message &message, const FIX::SessionID &) override {
        if (message.getHeader().getField(FIX::FIELD::MsgType) == FIX::MsgType_Logon && reset_.exchange(false))
            message.setField(FIX::ResetSeqNumFlag(true));
    }

    void fromApp(const FIX::Message &report, const FIX::SessionID &)
        throw(FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue, FIX::UnsupportedMessageType) override {
        if (report.getField(FIX::FIELD::ExecType) != "F")
            return;
        std::lock_guard<std::mutex> guard(lock_);
        if (!filled_.insert(report.getField(FIX::FIELD::ClOrdID)).second)
            std::cout << "filled twice: " << report.getField(FIX::FIELD::ClOrdID) << std::endl;
    }

    bool steps() {
        if (!step("logon", [this] { return logons_ == 1; }))
            return false;
        send();
        if (!step("orders", [this] { return all_filled(); }))
            return false;
        std::cout << "cut" << std::endl;
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        send();
        if (!step("reconnect", [this] { return logons_ == 2; }) ||
            !step("resend after a cut connection", [this] { return all_filled(); }))
            return false;
        FIX::Session *own = FIX::Session::lookupSession(session_);
        const int next = own->getExpectedSenderNum() + 25;
        FIX44::SequenceReset reset{FIX::NewSeqNo(next)};
        own->send(reset);
        own->setNextSenderMsgSeqNum(next);
        send();
        if (!step("sequence reset", [this] { return all_filled(); }))
            return false;
        reset_ = true;
        own->reset();
        if (!step("logon with reset", [this, own] { return logons_ == 3 && own->isLoggedOn(); }))
            return false;
        send();
        return step("orders after reset", [this] { return all_filled(); }) && own->getExpectedSenderNum() < 20;
    }

private:
    bool all_filled() {
        std::lock_guard<std::mutex> guard(lock_);
        return filled_.size() == static_cast<size_t>(sent_);
    }

    static bool step(const std::string &name, const std::function<bool()> &done) {
        for (int i = 0; i < WITHIN_S * 100; i++) {
            if (done()) {
                std::cout << "step " << name << ": passed" << std::endl;
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        std::cout << "step " << name << ": FAILED" << std::endl;
        return false;
    }

    void send() {
        for (int i = 0; i < ORDERS; i++) {
            FIX44::NewOrderSingle order(FIX::ClOrdID("C" + std::to_string(++sent_)), FIX::Side(FIX::Side_BUY),
                                        FIX::TransactTime(), FIX::OrdType(FIX::OrdType_MARKET));
            order.set(FIX::HandlInst('1'));
            order.set(FIX::Symbol("EURUSD"));
            order.set(FIX::OrderQty(100));
            FIX::Session::sendToTarget(order, session_);
        }
    }

    std::mutex lock_;
    std::set<std::string> filled_;
    FIX::SessionID session_;
    std::atomic<int> logons_{0};
    // The next Logon is to reset both sequence numbers.
    std::atomic<bool> reset_{false};
    int sent_ = 0;
};

int main(int count, char **arguments) {
    if (count < 2) {
        std::cerr << "usage: initiator CFG [tls]\n";
        return 2;
    }
    try {
        FIX::SessionSettings settings(arguments[1]);
        Interop interop;
        FIX::MemoryStoreFactory store;
        FIX::ScreenLogFactory log(settings);
        std::unique_ptr<FIX::Initiator> initiator;
        if (count == 2)
            initiator = std::make_unique<FIX::ThreadedSocketInitiator>(interop, store, settings, log);
        else
            initiator = std::make_unique<FIX::ThreadedSSLSocketInitiator>(interop, store, settings, log);
        initiator->start();
        const bool good = interop.steps();
        initiator->stop();
        return good ? 0 : 1;
    } catch (const std::exception &problem) {
        std::cerr << problem.what() << '\n';
        return 1;
    }
}
