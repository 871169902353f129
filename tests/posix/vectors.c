/* Several buffers and several messages in one call, on a TCP connection. */
#include "fixture.h"

#include <limits.h>
#include <sys/uio.h>

static struct iovec part(const void *base, size_t length)
{
    return (struct iovec){(void *)base, length};
}

static void read_and_write(void)
{
    struct pair pair = connected();
    char one[4], two[4], three[8], data[32];
    struct iovec out[] = {part("ab", 2), part("", 0), part("cde", 3), part(NULL, 0), part("f", 1)};
    check_int("writev", writev(pair.ours, out, 5), 6);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, sizeof data, 0), "abcdef", 6);
    MUST(peer_send(pair.theirs, "0123456789", 10, 0));
    struct iovec in[] = {part(one, 4), part(NULL, 0), part(two, 4), part(three, 8)};
    check_int("readv", readv(pair.ours, in, 4), 10);
    check_bytes("readv_first", one, 4, "0123", 4);
    check_bytes("readv_second", two, 4, "4567", 4);
    check_bytes("readv_third", three, 2, "89", 2);
    check_int("no_buffers", writev(pair.ours, out, 0), 0);
    check_int("no_room", readv(pair.ours, in + 1, 1), 0);
    check_int("pwritev2_without_place", pwritev2(pair.ours, out, 3, -1, 0), 5);
    check_bytes("pwritev2_arrives", data, peer_recv(pair.theirs, data, sizeof data, 0), "abcde", 5);
    MUST(peer_send(pair.theirs, "wxyz", 4, 0));
    check_int("preadv2", preadv2(pair.ours, in, 1, -1, 0), 4);
    check_bytes("preadv2_data", one, 4, "wxyz", 4);
    check_fails("preadv", preadv(pair.ours, in, 1, 0), ESPIPE);
    check_fails("pwritev", pwritev(pair.ours, out, 1, 0), ESPIPE);
    check_fails("pread", pread(pair.ours, one, 1, 0), ESPIPE);
    check_fails("pwrite", pwrite(pair.ours, "x", 1, 0), ESPIPE);
    check_fails("lseek", lseek(pair.ours, 0, SEEK_SET), ESPIPE);
    struct iovec many[IOV_MAX + 1];
    volatile int too_many = IOV_MAX + 1, negative = -1;
    for (int index = 0; index <= IOV_MAX; index++)
        many[index] = part("many", 4);
    check_fails("too_many", writev(pair.ours, many, too_many), EINVAL);
    check_fails("negative_count", writev(pair.ours, many, negative), EINVAL);
    check_int("most_buffers", writev(pair.ours, many, IOV_MAX), 4 * IOV_MAX);
}

static void messages(void)
{
    struct pair pair = connected();
    char one[3], two[16], data[32], control[64];
    struct iovec out[] = {part("hello", 5), part("world", 5)}, in[] = {part(one, 3), part(two, 16)};
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 2};
    check_int("sendmsg", sendmsg(pair.ours, &message, 0), 10);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, sizeof data, 0), "helloworld", 10);
    MUST(peer_send(pair.theirs, "answers", 7, 0));
    struct sockaddr_storage from;
    message = (struct msghdr){.msg_iov = in, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = sizeof from,
                              .msg_control = control, .msg_controllen = sizeof control, .msg_flags = -1};
    check_int("recvmsg_peek", recvmsg(pair.ours, &message, MSG_PEEK), 7);
    message.msg_namelen = sizeof from;
    message.msg_controllen = sizeof control;
    check_int("recvmsg", recvmsg(pair.ours, &message, 0), 7);
    check_bytes("first", one, 3, "ans", 3);
    check_bytes("second", two, 4, "wers", 4);
    check_int("flags", message.msg_flags, 0);
    check_int("no_control", (long long)message.msg_controllen, 0);
    check_int("no_name", message.msg_namelen, 0);
    check_fails("recvmsg_none", recvmsg(pair.ours, &message, MSG_DONTWAIT), EAGAIN);
    message = (struct msghdr){.msg_iov = out, .msg_iovlen = IOV_MAX + 1};
    check_fails("too_many", sendmsg(pair.ours, &message, 0), EMSGSIZE);
    message = (struct msghdr){.msg_iovlen = 0};
    check_int("empty", sendmsg(pair.ours, &message, 0), 0);
    peer_later(40);
    peer_send(pair.theirs, "tail", 4, 0);
    struct iovec room[] = {part(two, 4)};
    message = (struct msghdr){.msg_iov = room, .msg_iovlen = 1};
    check_int("recvmsg_waits", recvmsg(pair.ours, &message, MSG_WAITALL), 4);
}

static void several_messages(void)
{
    struct pair pair = connected();
    char data[32];
    struct iovec out[] = {part("ab", 2), part("cd", 2), part("e", 1)};
    struct mmsghdr all[3] = {0};
    for (int index = 0; index < 3; index++)
        all[index].msg_hdr = (struct msghdr){.msg_iov = &out[index], .msg_iovlen = 1};
    check_int("sendmmsg", sendmmsg(pair.ours, all, 3, 0), 3);
    check_int("length", all[1].msg_len, 2);
    size_t have = 0;
    while (have < 5)
        have += (size_t)MUST(peer_recv(pair.theirs, data + have, sizeof data - have, 0));
    check_bytes("peer_has_it", data, (long long)have, "abcde", 5);
    char one[2], two[2];
    struct iovec in[] = {part(one, 2), part(two, 2)};
    for (int index = 0; index < 2; index++)
        all[index].msg_hdr = (struct msghdr){.msg_iov = &in[index], .msg_iovlen = 1};
    MUST(peer_send(pair.theirs, "wxyz", 4, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_int("recvmmsg", recvmmsg(pair.ours, all, 2, MSG_DONTWAIT, NULL), 2);
    check_bytes("first", one, all[0].msg_len, "wx", 2);
    check_bytes("second", two, all[1].msg_len, "yz", 2);
    check_fails("none", recvmmsg(pair.ours, all, 2, MSG_DONTWAIT, NULL), EAGAIN);
    MUST(peer_send(pair.theirs, "k", 1, 0));
    check_int("for_one", recvmmsg(pair.ours, all, 2, MSG_WAITFORONE, NULL), 1);
}

/* Lengths that the compiler does not know: with _FORTIFY_SOURCE these become __read_chk, __recv_chk, __poll_chk... */
static void unknown_lengths(void)
{
    struct pair pair = connected();
    char data[8];
    volatile size_t length = 3;
    MUST(peer_send(pair.theirs, "abcdefghijkl", 12, 0));
    check_bytes("read", data, read(pair.ours, data, length), "abc", 3);
    check_bytes("recv", data, recv(pair.ours, data, length, 0), "def", 3);
    check_bytes("recvfrom", data, recvfrom(pair.ours, data, length, 0, NULL, NULL), "ghi", 3);
    struct pollfd one[2] = {{.fd = pair.ours, .events = POLLIN}, {.fd = -1}};
    volatile nfds_t count = 2;
    check_int("poll", poll(one, count, 0), 1);
    struct timespec none = {0};
    check_int("ppoll", ppoll(one, count, &none, NULL), 1);
    struct timespec again = {0};
    check_int("ppoll_revents", ppoll(one, count, &again, NULL) == 1 ? one[0].revents : -1, POLLIN);
}

static const struct test tests[] = {
    {"read_and_write", read_and_write, FAMILIES_AND_ENDS},
    {"messages", messages, FAMILIES_AND_ENDS},
    {"several_messages", several_messages, FAMILIES_AND_ENDS},
    {"unknown_lengths", unknown_lengths, FAMILIES_AND_ENDS},
};

SUBJECT(vectors, tests);
