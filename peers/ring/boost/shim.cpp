// boost::lockfree::spsc_queue behind C functions, one set per message size. The message is read in place: front(), then
// pop(). A call into C costs one or two nanoseconds per message, which this peer pays and the Rust ones do not.
#include <boost/lockfree/spsc_queue.hpp>
#include <cstddef>
#include <new>

namespace {
template <std::size_t N> struct Message {
    unsigned char bytes[N];
};
template <std::size_t N> using Queue = boost::lockfree::spsc_queue<Message<N>>;
} // namespace

#define RING(N)                                                                                                        \
    extern "C" void *boost_new_##N(std::size_t messages) { return new (std::nothrow) Queue<N>(messages); }             \
    extern "C" void boost_free_##N(void *queue) { delete static_cast<Queue<N> *>(queue); }                             \
    extern "C" bool boost_push_##N(void *queue, const unsigned char *message) {                                        \
        return static_cast<Queue<N> *>(queue)->push(*reinterpret_cast<const Message<N> *>(message));                   \
    }                                                                                                                  \
    extern "C" const unsigned char *boost_front_##N(void *queue) {                                                     \
        auto *ring = static_cast<Queue<N> *>(queue);                                                                   \
        return ring->read_available() ? ring->front().bytes : nullptr;                                                 \
    }                                                                                                                  \
    extern "C" void boost_pop_##N(void *queue) { static_cast<Queue<N> *>(queue)->pop(); }

RING(8)
RING(16)
RING(32)
RING(48)
RING(64)
RING(128)
RING(256)
RING(512)
RING(1024)
