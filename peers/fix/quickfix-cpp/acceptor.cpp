// acceptor CFG STORE [tls]: store null, memory or file. ThreadedSocketAcceptor: a thread for each session, which reads,
// answers and writes. Nothing is logged.
#include "exchange.h"

#include <quickfix/FileStore.h>
#include <quickfix/Log.h>
#include <quickfix/MessageStore.h>
#include <quickfix/NullStore.h>
#include <quickfix/SessionSettings.h>
#include <quickfix/ThreadedSSLSocketAcceptor.h>
#include <quickfix/ThreadedSocketAcceptor.h>

#include <iostream>
#include <memory>
#include <unistd.h>

static std::unique_ptr<FIX::MessageStoreFactory> stores(const std::string &name, const FIX::SessionSettings &settings) {
    if (name == "null")
        return std::make_unique<FIX::NullStoreFactory>();
    if (name == "memory")
        return std::make_unique<FIX::MemoryStoreFactory>();
    return std::make_unique<FIX::FileStoreFactory>(settings);
}

int main(int count, char **arguments) {
    if (count != 3 && count != 4) {
        std::cerr << "usage: acceptor CFG null|memory|file [tls]\n";
        return 2;
    }
    try {
        FIX::SessionSettings settings(arguments[1]);
        Exchange exchange;
        auto store = stores(arguments[2], settings);
        std::unique_ptr<FIX::Acceptor> acceptor;
        if (count == 3)
            acceptor = std::make_unique<FIX::ThreadedSocketAcceptor>(exchange, *store, settings);
        else
            acceptor = std::make_unique<FIX::ThreadedSSLSocketAcceptor>(exchange, *store, settings);
        acceptor->start();
        std::cout << "ready" << std::endl;
        for (;;)
            pause();
    } catch (const std::exception &problem) {
        std::cerr << problem.what() << '\n';
        return 1;
    }
}
